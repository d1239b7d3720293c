# One image with both programs, a layer each. Static binaries: nothing else is in it, no shell, no libc.
#   docker build --tag webservice-operator .
FROM rust:1.95-bookworm AS build
WORKDIR /source
COPY . .
# glibc, linked statically: neither program looks up names beyond what glibc does without its plugins.
ENV RUSTFLAGS="-C target-feature=+crt-static"
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/source/target \
    target="$(rustc --print host-tuple)" && \
    cargo build --locked --release --target "$target" --package webservice-webhook --package webservice-controller && \
    mkdir /programs && cp "target/$target/release/webservice-webhook" "target/$target/release/webservice-controller" /programs/

FROM scratch
COPY --from=build /programs/webservice-webhook /webservice-webhook
COPY --from=build /programs/webservice-controller /webservice-controller
COPY LICENSE /LICENSE
# Any user does; the chart says which of the two programs runs.
USER 65532:65532
ENTRYPOINT ["/webservice-controller"]
