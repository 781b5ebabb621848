// Package bench measures the pipeline: throughput, the latency of decisions, the cost of rules,
// beliefs, the log, restarts and long runs. Each measurement has a report whose lines
// internal/cli/bench prints, and some have a budget that a run must not exceed.
//
// Measurements run a real pipeline, embedded or over a connection.
//
// It may import client, internal/embedded, internal/auditor, internal/backtest, internal/natsserver,
// internal/query, internal/stage, internal/wire and packages below pkg. Begin reading with pipeline.go and
// decide.go; each measurement is in the file with its name.
package bench
