package bench

import "fmt"

// Restart is the time that a killed pipeline needs to come back, for one ledger size.
type Restart struct {
	Entries int `json:"entries"` // observations in the ledger
	// Seconds is the median time from the start of the process to its first verdict.
	Seconds float64 `json:"seconds"`
	// CPU is the median processor time of the process until its first verdict.
	CPU float64 `json:"cpu_seconds"`
	// Server and ServerCPU are the medians of a start of nats-server alone on the same folder.
	Server    float64   `json:"server_seconds"`
	ServerCPU float64   `json:"server_cpu_seconds"`
	All       []float64 `json:"all_seconds"` // the times of which Seconds is the median
}

// RestartReport has the restart times after a kill by ledger size.
type RestartReport struct {
	Size  int       `json:"content_bytes"` // bytes of content of an observation
	Times []Restart `json:"times"`         // by increasing number of observations
}

// mostRestart is the limit of the ratio between the restart times of the largest ledger and the next
// smaller one.
const mostRestart = 1.5

// Lines returns the figures and their budgets.
func (r *RestartReport) Lines() (out []Line) {
	for i, t := range r.Times {
		out = append(out, Line{What: fmt.Sprintf("first verdict after a kill, %d observations of %d bytes", t.Entries,
			r.Size), Value: t.Seconds, Unit: "s"},
			Line{What: "  processor time until then", Value: t.CPU, Unit: "s"},
			Line{What: "  nats-server alone, on the same folder", Value: t.Server, Unit: "s"},
			Line{What: "  its processor time", Value: t.ServerCPU, Unit: "s"})
		if i > 0 && i == len(r.Times)-1 {
			ratio := t.Seconds / max(r.Times[i-1].Seconds, 0.001)
			out = append(out, Line{What: fmt.Sprintf("  ratio to the time with %d", r.Times[i-1].Entries), Value: ratio,
				Unit:   "x",
				Budget: fmt.Sprintf("<= %g x", mostRestart), Pass: ratio <= mostRestart})
		}
	}
	return out
}
