package otel

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
)

// The protocols of OTLP, as named in OTEL_EXPORTER_OTLP_PROTOCOL.
const (
	ProtocolHTTP = "http/protobuf"
	ProtocolGRPC = "grpc"
)

// A client retries a failed export for the time tries. The first retry follows after firstTry. If all retries
// fail, Run waits longer (backOff) before it sends again.
const (
	firstTry = 500 * time.Millisecond
	tries    = 10 * time.Second
)

// NewClient returns a client of an OTLP receiver. Empty arguments come from the
// environment variables of OpenTelemetry (OTEL_EXPORTER_OTLP_ENDPOINT, _HEADERS,
// _CERTIFICATE and so on, also with _TRACES), then from their defaults: http/protobuf to
// http://localhost:4318. An endpoint without a path gets /v1/traces over HTTP.
func NewClient(endpoint, protocol string) (otlptrace.Client, error) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if protocol == "" {
			protocol = os.Getenv(name)
		}
	}
	if endpoint != "" {
		u, err := url.Parse(endpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("the endpoint of the OpenTelemetry collector is %q, want http://HOST:PORT or https://HOST:PORT",
				endpoint)
		}
		if strings.Trim(u.Path, "/") == "" && protocol != ProtocolGRPC {
			u.Path = "/v1/traces"
		}
		endpoint = u.String()
	}
	switch protocol {
	case "", ProtocolHTTP:
		opts := []otlptracehttp.Option{otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true,
			InitialInterval: firstTry, MaxInterval: 10 * firstTry, MaxElapsedTime: tries})}
		if endpoint != "" {
			opts = append(opts, otlptracehttp.WithEndpointURL(endpoint))
		}
		return otlptracehttp.NewClient(opts...), nil
	case ProtocolGRPC:
		opts := []otlptracegrpc.Option{otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: true,
			InitialInterval: firstTry, MaxInterval: 10 * firstTry, MaxElapsedTime: tries})}
		if endpoint != "" {
			opts = append(opts, otlptracegrpc.WithEndpointURL(endpoint))
		}
		return otlptracegrpc.NewClient(opts...), nil
	}
	return nil, fmt.Errorf("the protocol is %q, use %s or %s", protocol, ProtocolHTTP, ProtocolGRPC)
}

// NewResource describes the sender: service.name is lazaret, unless
// OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES say otherwise.
func NewResource(ctx context.Context) (*resourcepb.Resource, error) {
	r, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "lazaret")),
		resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("reading OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	out := new(resourcepb.Resource)
	for _, kv := range r.Attributes() {
		out.Attributes = append(out.Attributes, keyString(string(kv.Key), kv.Value.String()))
	}
	return out, nil
}
