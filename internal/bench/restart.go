package bench

import "fmt"

// Restart is how long a killed pipeline took to come back with some entries in its ledger.
type Restart struct {
	Entries int `json:"entries"`
	// Seconds is the median from the start of the process to its first verdict.
	Seconds float64 `json:"seconds"`
	// CPU is the processor time of the process until then, the median.
	CPU float64   `json:"cpu_seconds"`
	All []float64 `json:"all_seconds"`
}

// RestartReport compares restarts after a kill, by the length of the ledger.
type RestartReport struct {
	Size  int       `json:"content_bytes"` // of an observation
	Times []Restart `json:"times"`         // from few entries to many
}

// mostRestart is what a restart with the most entries may take of one with the number before.
const mostRestart = 1.5

// Lines are the figures with their budgets.
func (r *RestartReport) Lines() (out []Line) {
	for i, t := range r.Times {
		out = append(out, Line{What: fmt.Sprintf("first verdict after a kill, %d observations of %d bytes", t.Entries,
			r.Size), Value: t.Seconds, Unit: "s"},
			Line{What: "  processor time until then", Value: t.CPU, Unit: "s"})
		if i > 0 && i == len(r.Times)-1 {
			ratio := t.Seconds / max(r.Times[i-1].Seconds, 0.001)
			out = append(out, Line{What: fmt.Sprintf("  the last in that with %d", r.Times[i-1].Entries), Value: ratio,
				Unit:   "x",
				Budget: fmt.Sprintf("<= %g x", mostRestart), Pass: ratio <= mostRestart})
		}
	}
	return out
}
