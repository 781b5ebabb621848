package policy

import "fmt"

// decisionsText says what is done about decisions.
type decisionsText struct {
	// Uncited is what becomes of a decision that neither cites beliefs nor says
	// that it cites none: allow, alert (the default) or reject.
	Uncited string `yaml:"uncited"`
}

// Uncited is what becomes of a decision that cites nothing and does not say so.
type Uncited uint8

// The values of Uncited.
const (
	UncitedAlert  Uncited = iota // recorded, with a finding
	UncitedAllow                 // recorded
	UncitedReject                // refused, with an error
)

func compileDecisions(t *decisionsText) (Uncited, error) {
	if t == nil {
		return UncitedAlert, nil
	}
	switch t.Uncited {
	case "", "alert":
		return UncitedAlert, nil
	case "allow":
		return UncitedAllow, nil
	case "reject":
		return UncitedReject, nil
	}
	return UncitedAlert, fmt.Errorf("uncited is %q: use allow, alert or reject", t.Uncited)
}

// Uncited is what becomes of a decision that cites nothing and does not say so.
func (p *Policy) Uncited() Uncited { return p.uncited }
