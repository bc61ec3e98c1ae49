# The operator's image: Python, the packages pinned in requirements.lock (without those for simulation and development), and fairburst.
#   docker build -t fairburst .          with --build-arg BASE=IMAGE for another base: Python 3.11 or newer with venv and pip
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
# All files get one arbitrary time, 2026-01-01, so that two builds from one commit hold the same bytes.
ARG SOURCE_DATE_EPOCH=1767225600
ENV SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH} PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY requirements.lock pyproject.toml ./
COPY release/lock.py release/lock.py
RUN python3 -m venv /build && python3 -m venv --without-pip /opt/fairburst \
 && python3 release/lock.py setuptools > build.lock \
 && python3 release/lock.py --project > image.lock \
 && /build/bin/pip install --quiet --require-hashes --only-binary :all: -r build.lock \
 && /build/bin/pip --python /opt/fairburst/bin/python install --quiet --no-compile --require-hashes --only-binary :all: -r image.lock
COPY README.md LICENSE ./
COPY operator operator
# The tests of numpy and scipy, which are removed, are 48 MB. The bytecode is compiled here, because the root file system is read-only later;
# Python uses it without checking its source. The extra `cluster` is left out: in a pod the service account's token suffices.
RUN /build/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /wheels . \
 && /build/bin/pip --python /opt/fairburst/bin/python install --quiet --no-compile --no-deps /wheels/*.whl \
 && rm -rf /opt/fairburst/lib/python3*/site-packages/fairburst-*.dist-info/direct_url.json \
 && find /opt/fairburst/lib -path '*/site-packages/*' -type d -name tests -prune -exec rm -rf {} + \
 && PYTHONHASHSEED=0 /opt/fairburst/bin/python -m compileall -q -f --invalidation-mode unchecked-hash /opt/fairburst/lib \
 && find /opt/fairburst -exec touch -h -d "@${SOURCE_DATE_EPOCH}" {} +

FROM ${BASE}
ARG VERSION=unknown REVISION=unknown
LABEL org.opencontainers.image.title="fairburst" \
      org.opencontainers.image.description="Kubernetes operator that shares a cluster between bursty, latency-sensitive queues and long-running batch work" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/fairburst /opt/fairburst
# Kopf asks for the user's name. USER gives it, because a numeric user need not have one in /etc/passwd.
ENV PATH=/opt/fairburst/bin:/usr/local/bin:/usr/bin:/bin USER=fairburst PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# glibc gives each thread a heap of its own, which keeps half a megabyte to two that are free.
ENV MALLOC_ARENA_MAX=1
# Any number except root's works. With a number, Kubernetes can verify that the user is not root.
USER 65532:65532
WORKDIR /
ENTRYPOINT ["fairburst"]
CMD ["run"]
