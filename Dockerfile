# bertctl on a CUDA box:
#   docker build -t bertctl .
#   docker run --gpus all --shm-size 2g -v "$PWD":/data bertctl run recipes/demo.yaml
ARG TORCH_IMAGE=pytorch/pytorch:2.13.0-cuda12.8-cudnn9-runtime
FROM ${TORCH_IMAGE}

WORKDIR /opt/bertctl
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY bertctl ./bertctl
COPY recipes ./recipes

# The image's own torch (with its CUDA build) stays: the line for torch is taken from what is installed, and the build
# stops if pip changed it all the same.
RUN python -c 'import torch; print(torch.__version__)' > /tmp/torch-before \
    && grep -v '^torch==' constraints.txt > /tmp/constraints.txt \
    && echo "torch==$(cat /tmp/torch-before)" >> /tmp/constraints.txt \
    && python -m pip install --no-cache-dir --constraint /tmp/constraints.txt . \
    && python -c 'import torch; print(torch.__version__)' | diff /tmp/torch-before - \
    && rm /tmp/torch-before /tmp/constraints.txt

RUN useradd --create-home --uid 10001 bertctl && mkdir /data && chown bertctl /data
USER bertctl
WORKDIR /data
ENTRYPOINT ["bertctl"]
CMD ["--help"]
