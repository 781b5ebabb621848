package policy

import (
	"fmt"

	"lazaret/pkg/beliefs"
)

// incidentsText is the section on which findings open an incident.
type incidentsText struct {
	// Severity is the minimum severity: medium, high or critical (the default), or never.
	Severity string `yaml:"severity"`
}

// incidents is the compiled section.
type incidents struct {
	least beliefs.Severity // info means the default
	never bool
}

func compileIncidents(t *incidentsText) (i incidents, err error) {
	switch {
	case t == nil || t.Severity == "":
		return i, nil
	case t.Severity == "never":
		i.never = true
		return i, nil
	}
	if i.least, err = beliefs.ParseSeverity(t.Severity); err != nil || i.least < beliefs.Medium {
		return i, fmt.Errorf("severity is %q: use medium, high, critical or never", t.Severity)
	}
	return i, nil
}

// Incidents returns the minimum severity of a finding that opens an incident or adds to an open
// one. If never is set, no finding does.
func (p *Policy) Incidents() (least beliefs.Severity, never bool) {
	if p.incidents.least == beliefs.Info {
		return beliefs.Critical, p.incidents.never
	}
	return p.incidents.least, p.incidents.never
}
