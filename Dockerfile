# docker build -t rustorch .
# docker run --rm -it -v rustorch:/home/rustorch rustorch chat qwen3:0.6b --yes
#
# The volume keeps downloaded models. A GPU is used where the container sees one and its Vulkan driver.

FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY . .
# The context has no .git: `docker build --build-arg COMMIT=$(git rev-parse --short HEAD) .` names the commit.
ARG COMMIT=
RUN BUILD_COMMIT="$COMMIT" cargo build --profile dist --locked -p rustorch-cli

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends libvulkan1 && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home rustorch
COPY --from=build /src/target/dist/rustorch /usr/local/bin/rustorch
COPY --from=build /src/LICENSE-APACHE /src/LICENSE-MIT /usr/local/share/doc/rustorch/
USER 10001
WORKDIR /home/rustorch
ENTRYPOINT ["rustorch"]
