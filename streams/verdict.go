package streams

import "fmt"

// Verdict is the answer to a proposal. Verdicts are ordered Allow < Hold < Deny and are combined only by Join.
// Therefore a combined verdict does not depend on the order in which verdicts are joined, and a further verdict cannot
// make it milder.
type Verdict uint8

// The verdicts.
const (
	Allow Verdict = iota
	Hold
	Deny
)

// Join returns the stricter of the two verdicts.
func (v Verdict) Join(w Verdict) Verdict { return max(v, w) }

func (v Verdict) String() string {
	switch v {
	case Allow:
		return "allow"
	case Hold:
		return "hold"
	case Deny:
		return "deny"
	}
	return fmt.Sprintf("verdict(%d)", uint8(v))
}

// ParseVerdict reads allow, hold or deny.
func ParseVerdict(s string) (Verdict, error) {
	switch s {
	case "allow":
		return Allow, nil
	case "hold":
		return Hold, nil
	case "deny":
		return Deny, nil
	}
	return Deny, fmt.Errorf("%q is not a verdict: use allow, hold or deny", s)
}

// MarshalText implements encoding.TextMarshaler.
func (v Verdict) MarshalText() ([]byte, error) {
	if v > Deny {
		return nil, fmt.Errorf("verdict %d does not exist", v)
	}
	return []byte(v.String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (v *Verdict) UnmarshalText(b []byte) (err error) {
	*v, err = ParseVerdict(string(b))
	return err
}
