# The proxy and its draft model on the CPU; `worker` and `coordinator` run from it, too
# (docker-compose.yaml). Mount the settings and the draft, and a volume for what is learned of it:
#
#   docker run -p 8088:8088 -e SPECPROXY_LISTEN__API_KEY=KEY -v learned:/var/cache/specproxy \
#     -v ./my.yaml:/etc/specproxy/config.yaml:ro -v /models:/models:ro specproxy

FROM python:3.11-slim AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends build-essential cmake ninja-build \
    && rm -rf /var/lib/apt/lists/*
RUN python -m venv /opt/specproxy
ENV PATH=/opt/specproxy/bin:$PATH
WORKDIR /src

# The bindings bring their own libllama here: for any x86 processor with AVX2 (or any ARM one), not
# for the one that builds the image. A layer of its own, for it takes minutes.
COPY pyproject.toml ./
RUN python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'], sep='\n')" > requirements.txt \
    && CMAKE_ARGS="-DGGML_NATIVE=OFF -DGGML_OPENMP=OFF -DGGML_RPC=ON -DLLAVA_BUILD=OFF" \
    pip install --no-cache-dir -r requirements.txt

COPY README.md ./
COPY specproxy ./specproxy
RUN pip install --no-cache-dir --no-deps . \
    && python -c "from specproxy.llama.library import load; load()"

FROM python:3.11-slim
COPY --from=build /opt/specproxy /opt/specproxy
ENV PATH=/opt/specproxy/bin:$PATH PYTHONUNBUFFERED=1 XDG_CACHE_HOME=/var/cache
RUN useradd --system --no-create-home --uid 10001 specproxy \
    && install -d -o specproxy /var/cache/specproxy
USER specproxy
EXPOSE 8088
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import socket; socket.create_connection(('127.0.0.1', 8088), 3).close()"]
ENTRYPOINT ["specproxy"]
CMD ["serve", "--config", "/etc/specproxy/config.yaml", "--host", "0.0.0.0", "--port", "8088"]
