# The operator's image: Python, the packages pinned in requirements.lock (without those for simulation and development), and fairburst.
#   docker build -t fairburst .          with --build-arg BASE=IMAGE for another base: Python 3.11 or newer with venv and pip
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
# One time for all files: two builds from one commit then hold the same bytes. 2026-01-01, as good as any.
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
# Tests of numpy and scipy are 48 MB. The bytecode is made here, since the root file system is read-only later, and is trusted without
# looking at the files' times. In a pod the service account's token is all that is needed, so that the extra `cluster` stays out.
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
# USER, since Kopf asks for the user's name, and a number need not have one in /etc/passwd.
ENV PATH=/opt/fairburst/bin:/usr/local/bin:/usr/bin:/bin USER=fairburst PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# Any number but root's will do. It is a number, so that Kubernetes can see that it is not root.
USER 65532:65532
WORKDIR /
ENTRYPOINT ["fairburst"]
CMD ["run"]
