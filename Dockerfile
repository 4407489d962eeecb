# docker build --tag pgdyno .
# docker run --rm --volume "$PWD:/bench" pgdyno run quick
FROM rust:1.95-bookworm AS build
RUN apt-get update && apt-get install --yes --no-install-recommends python3-venv
WORKDIR /src
COPY . .
RUN make wheels MACHINES=$(uname -m)
RUN python3 -m venv /opt/pgdyno && /opt/pgdyno/bin/pip install --no-cache-dir --only-binary=:all: /src/dist/pgdyno-*_$(uname -m).whl

# of the same Debian, whose Python the environment belongs to
FROM debian:bookworm-slim
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates python3 && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 1000 --create-home pgdyno && install --directory --owner=pgdyno /bench
COPY --from=build /opt/pgdyno /opt/pgdyno
ENV PATH=/opt/pgdyno/bin:/usr/bin:/bin LANG=C.UTF-8
USER pgdyno
WORKDIR /bench
ENTRYPOINT ["pgdyno"]
CMD ["--help"]
