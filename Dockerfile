# The program alone: 20 MB, no shell, no root. The log lives in the volume /var/lib/trunkline.
#
#   docker build -t trunkline .
#   docker run -v $PWD/pipelines.yaml:/etc/trunkline/pipelines.yaml -v trunkline:/var/lib/trunkline trunkline
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -tags=timetzdata -ldflags="-s -w" -o /trunkline ./cmd/trunkline && mkdir -p /state

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /trunkline /usr/bin/trunkline
COPY --from=build --chown=65532:65532 /state /var/lib/trunkline
USER 65532:65532
WORKDIR /var/lib/trunkline
VOLUME /var/lib/trunkline
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/trunkline"]
CMD ["run", "-f", "/etc/trunkline/pipelines.yaml"]
