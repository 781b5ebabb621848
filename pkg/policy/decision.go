package policy

import "fmt"

// decisionsText is the section on decisions.
type decisionsText struct {
	// Uncited says how to treat a decision that neither cites beliefs nor sets cites_none: allow,
	// alert (the default) or reject.
	Uncited string `yaml:"uncited"`
}

// Uncited says how to treat a decision that neither cites beliefs nor sets cites_none.
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

// Uncited returns how to treat a decision that neither cites beliefs nor sets cites_none.
func (p *Policy) Uncited() Uncited { return p.uncited }
