# slo-exporter in a container: no compiler, no package manager of ours, no root.
#
#   docker build --tag slo-exporter .
#   podman build --format docker --tag slo-exporter .      # OCI's own format knows no HEALTHCHECK
#
# The tag follows the security releases of one Python on one Debian. For the same bytes
# every time give it by digest: --build-arg PYTHON=docker.io/library/python@sha256:...
ARG PYTHON=docker.io/library/python:3.11-slim-bookworm

FROM ${PYTHON} AS builder
WORKDIR /build
COPY pyproject.toml requirements.lock ./
# As in the Makefile: pip brings uv, at the locked version and hash, and uv brings the rest.
# requirements.lock holds the tools of developers too, so it is no list of what to install
# here. pyproject.toml is that list, and the lock constrains it: uv takes versions and hashes
# from constraints, and --require-hashes refuses whatever has none.
RUN python -m venv tools \
    && python -m venv --without-pip /opt/slo-exporter \
    && sed -n '/^uv==/,/[^\\]$/p' requirements.lock > uv.txt \
    && tools/bin/pip install --no-cache-dir --require-hashes --no-deps --requirement uv.txt \
    && tools/bin/uv pip install --no-cache --python tools/bin/python \
        --require-hashes --only-binary :all: --constraints requirements.lock --group build \
    && tools/bin/uv pip install --no-cache --python /opt/slo-exporter/bin/python --compile-bytecode \
        --require-hashes --only-binary :all: --constraints requirements.lock \
        --requirements pyproject.toml --extra demo
COPY README.md LICENSE ./
COPY slo_exporter slo_exporter
RUN tools/bin/python -m hatchling build --target wheel --directory dist \
    && tools/bin/uv pip install --no-cache --python /opt/slo-exporter/bin/python --compile-bytecode \
        --no-deps dist/*.whl

FROM ${PYTHON}
LABEL org.opencontainers.image.title="slo-exporter" \
      org.opencontainers.image.description="SLIs, error budgets and release decisions for AI inference" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=builder /opt/slo-exporter /opt/slo-exporter
# The only places that are written: /data, the database, and /tmp. The rest may be read-only.
RUN install --directory --owner=65532 --group=65532 --mode=0750 /data
# The environment wins over a configuration file: what is set here holds with any file.
# The decoder is compiled at the first start, since it is made for the CPU that it runs on, and
# kept in the volume beside the database: code for the CPU of a builder would run on no other.
# Inside a container loopback reaches nobody; who may reach these ports is for its network to say.
ENV PATH=/opt/slo-exporter/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    XDG_CACHE_HOME=/data/cache \
    SLO_EXPORTER_LISTEN=0.0.0.0:9874 \
    SLO_EXPORTER_OTLP__GRPC=0.0.0.0:4317 \
    SLO_EXPORTER_OTLP__HTTP=0.0.0.0:4318 \
    SLO_EXPORTER_DATABASE=sqlite:////data/slo-exporter.db
WORKDIR /data
VOLUME /data
EXPOSE 9874 4317 4318
# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
STOPSIGNAL SIGTERM
# It lives; whether it accepts is /readyz. http.client asks no proxy.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["python", "-I", "-c", \
    "import http.client, os; c = http.client.HTTPConnection('127.0.0.1', int(os.environ['SLO_EXPORTER_LISTEN'].rpartition(':')[2]), timeout=3); c.request('GET', '/healthz'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["slo-exporter"]
CMD ["serve"]
