FROM python:3.12-slim

# The OpenMP runtime of numba's threads.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/*

# Pulled models and compiled kernels: a volume made from this folder inherits its owner.
RUN useradd --create-home --uid 10001 zeroulp \
    && install --directory --owner=zeroulp --group=zeroulp /cache
ENV XDG_CACHE_HOME=/cache PIP_NO_CACHE_DIR=1 PYTHONUNBUFFERED=1

WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY proto proto
COPY model model
COPY server server
COPY client client
RUN pip install ".[server]"

USER zeroulp
WORKDIR /home/zeroulp
VOLUME /cache
EXPOSE 50051
# The first start compiles the kernels.
HEALTHCHECK --interval=10s --timeout=5s --start-period=180s --retries=3 \
    CMD ["zeroulp", "health", "--target", "127.0.0.1:50051"]
ENTRYPOINT ["zeroulp"]
CMD ["serve", "--model", "smollm2-135m", "--listen", "0.0.0.0:50051"]
