"""GetModel's answer."""

from __future__ import annotations

import threading
from importlib.metadata import version

from zeroulp.model.kernels.cache_rows import BLOCK
from zeroulp.model.loading import LoadedModel
from zeroulp.model.packing import PackedMatrix
from zeroulp.model.parameters import Parameter
from zeroulp.model.tracing.model_map import Module, map_of
from zeroulp.server.engine.limits import Limits
from zeroulp.v1 import decoder_pb2 as pb

ARITHMETIC_VERSION = 1


class ModelCard:
    """The answer, made when it is first asked for: the digest reads every parameter. Used by any thread."""

    def __init__(self, loaded: LoadedModel, limits: Limits) -> None:
        self._loaded = loaded
        self._limits = limits
        self._lock = threading.Lock()
        self._response: pb.GetModelResponse | None = None

    def response(self) -> pb.GetModelResponse:
        """Return the answer."""
        with self._lock:
            if self._response is None:
                self._response = self._made()
            return self._response

    def renewed(self, loaded: LoadedModel) -> pb.GetModelResponse:
        """Return what the answer will be once the parameters have the values of ``loaded``."""
        renewed = pb.GetModelResponse()
        renewed.CopyFrom(self.response())
        renewed.ClearField("parameters")
        renewed.MergeFrom(_values_of(loaded))
        return renewed

    def replace(self, response: pb.GetModelResponse) -> None:
        """Answer with ``response`` from now on."""
        with self._lock:
            self._response = response

    def _made(self) -> pb.GetModelResponse:
        loaded = self._loaded
        tokenizer = loaded.tokenizer
        made = pb.GetModelResponse(
            configuration=self._configuration(),
            arithmetic_version=ARITHMETIC_VERSION,
            tokenizer_kind=tokenizer.kind if tokenizer is not None else "none",
            end_token_ids=sorted(tokenizer.end_ids) if tokenizer is not None else (),
            chat_template=loaded.chat_source,
            limits=self._limits_message(),
            server_version=version("zeroulp"),
            model_map=self._model_map(),
        )
        made.MergeFrom(_values_of(loaded))
        return made

    def _configuration(self) -> pb.ModelConfiguration:
        c = self._loaded.model.configuration
        return pb.ModelConfiguration(
            vocabulary_size=c.vocabulary_size,
            model_width=c.model_width,
            heads=c.heads,
            kv_heads=c.kv_heads,
            feed_forward_width=c.feed_forward_width,
            layers=c.layers,
            max_positions=c.max_positions,
            rope_base=c.rope_base,
            rms_epsilon=c.rms_epsilon,
            context_window=c.context_window,
        )

    def _model_map(self) -> pb.ModelMap:
        model_map = map_of(self._loaded.model.configuration)
        edges = [
            pb.SharedWeight(parameter=edge.parameter, owner=edge.owner, borrower=edge.borrower)
            for edge in model_map.shared_weights
        ]
        return pb.ModelMap(modules=map(self._module, model_map.modules), shared_weights=edges)

    def _module(self, module: Module) -> pb.Module:
        owned = module.parameter
        return pb.Module(
            name=module.name,
            parameter=_parameter(self._loaded.model.parameters[owned.name]) if owned is not None else None,
            parameter_count=module.count,
            outputs=[pb.ModuleOutput(name=o.name, features=o.features) for o in module.outputs],
            modules=map(self._module, module.modules),
        )

    def _limits_message(self) -> pb.Limits:
        limits = self._limits
        return pb.Limits(
            max_positions=self._loaded.model.configuration.max_positions,
            max_sessions=limits.max_sessions,
            max_queued_calls=limits.max_calls,
            max_message_bytes=limits.max_message_bytes,
            cache_bytes=limits.cache_bytes,
            cache_block_positions=BLOCK,
            max_top_entries=limits.max_top_entries,
            max_stop_strings=limits.max_stop_strings,
            max_stop_bytes=limits.max_stop_bytes,
            max_score_sequences=limits.max_score_sequences,
            generate_ahead_tokens=limits.generate_ahead,
            max_waiting_per_session=limits.max_waiting_per_session,
            max_trace_patterns=limits.max_trace_patterns,
            max_trace_pattern_bytes=limits.max_trace_pattern_bytes,
            max_trace_bytes=limits.max_trace_bytes,
        )


def _values_of(loaded: LoadedModel) -> pb.GetModelResponse:
    """Return the part of the answer that other values change."""
    parameters = loaded.model.parameters
    return pb.GetModelResponse(
        name=loaded.name,
        parameters=[_parameter(node) for node in parameters.values()],
        parameter_count=parameters.count,
        parameter_bytes=parameters.nbytes,
        parameters_digest=parameters.digest(),
    )


def _parameter(node: Parameter) -> pb.ParameterInfo:
    storage = node.stored.storage if isinstance(node.stored, PackedMatrix) else "f64"
    return pb.ParameterInfo(name=node.name, shape=node.shape, storage=storage)
