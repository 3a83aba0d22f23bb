FROM python:3.12-slim AS build
WORKDIR /src
RUN python -m venv /opt/pursuit
COPY deploy/constraints.txt .
RUN /opt/pursuit/bin/pip install --no-cache-dir --require-hashes -r constraints.txt
COPY pyproject.toml README.md LICENSE ./
COPY core core
COPY app app
COPY deploy/README.md deploy/CHANGES.md deploy/CITATION.cff deploy/
RUN /opt/pursuit/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.12-slim
RUN useradd --system --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin pursuit \
    && install --directory --owner=pursuit --group=pursuit /data
COPY --from=build /opt/pursuit /opt/pursuit
ARG COMMIT=
ENV PATH=/opt/pursuit/bin:$PATH \
    PURSUIT_COMMIT=$COMMIT \
    PYTHONUNBUFFERED=1 \
    PURSUIT_DATA_DIR=/data \
    PURSUIT_HOST=0.0.0.0 \
    PURSUIT_PORT=8000 \
    PURSUIT_LOG_FORMAT=json
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-I", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health/ready', timeout=4)"]
CMD ["pursuit", "serve"]
