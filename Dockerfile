# The program alone: 20 MB, no shell, no root. The log lives in the volume /var/lib/trunkline.
#
#   docker build -t trunkline .
#   docker run -v $PWD/pipelines.yaml:/etc/trunkline/pipelines.yaml -v trunkline:/var/lib/trunkline trunkline
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -tags=timetzdata -ldflags="-s -w" -o /image/usr/bin/trunkline ./cmd/trunkline
# Time zones are in the program. The demo and large transactions need a /tmp that everyone may write into.
RUN mkdir -p /state /image/etc/ssl/certs /image/tmp && chmod 1777 /image/tmp && cp /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/

FROM scratch
COPY --from=build /image/ /
COPY --from=build --chown=65532:65532 /state /var/lib/trunkline
USER 65532:65532
WORKDIR /var/lib/trunkline
VOLUME /var/lib/trunkline
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/trunkline"]
CMD ["run", "-f", "/etc/trunkline/pipelines.yaml"]
