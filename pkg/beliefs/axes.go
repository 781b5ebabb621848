package beliefs

// Truth says whether evidence supports or contradicts a belief.
type Truth uint8

// The values of Truth.
const (
	Unverified   Truth = iota // only the belief's own source supports it
	Supported                 // evidence of a sufficient class supports it
	Contradicted              // evidence contradicts it
	Superseded                // a named successor replaced it
)

var truthNames = enum{"truth", []string{"unverified", "supported", "contradicted", "superseded"}}

func (t Truth) String() string { return truthNames.name(uint8(t)) }

// MarshalText implements encoding.TextMarshaler.
func (t Truth) MarshalText() ([]byte, error) { return truthNames.marshal(uint8(t)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Truth) UnmarshalText(b []byte) error { return unmarshal(truthNames, b, t) }

// Retrieval says whether a belief may be served, and to whom.
type Retrieval uint8

// The values of Retrieval.
const (
	Hidden         Retrieval = iota // recorded but not served, as a candidate
	Restricted                      // served as context only
	Normal                          // served
	PrivilegedOnly                  // served only to audits
	Blocked                         // never served; only a user can unblock it
)

var retrievalNames = enum{"retrieval", []string{"hidden", "restricted", "normal", "privileged_only", "blocked"}}

func (r Retrieval) String() string { return retrievalNames.name(uint8(r)) }

// MarshalText implements encoding.TextMarshaler.
func (r Retrieval) MarshalText() ([]byte, error) { return retrievalNames.marshal(uint8(r)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Retrieval) UnmarshalText(b []byte) error { return unmarshal(retrievalNames, b, r) }

// Security is the security state of a belief, set by sentinels and people.
type Security uint8

// The values of Security.
const (
	Clean Security = iota
	Suspicious
	Quarantined // kept for review; only a user can end the quarantine
	Malicious   // final
)

var securityNames = enum{"security", []string{"clean", "suspicious", "quarantined", "malicious"}}

func (s Security) String() string { return securityNames.name(uint8(s)) }

// MarshalText implements encoding.TextMarshaler.
func (s Security) MarshalText() ([]byte, error) { return securityNames.marshal(uint8(s)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Security) UnmarshalText(b []byte) error { return unmarshal(securityNames, b, s) }

// Freshness says whether a belief has become too old.
type Freshness uint8

// The values of Freshness.
const (
	Fresh Freshness = iota
	Stale
	Expired // not served
)

var freshnessNames = enum{"freshness", []string{"fresh", "stale", "expired"}}

func (f Freshness) String() string { return freshnessNames.name(uint8(f)) }

// MarshalText implements encoding.TextMarshaler.
func (f Freshness) MarshalText() ([]byte, error) { return freshnessNames.marshal(uint8(f)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *Freshness) UnmarshalText(b []byte) error { return unmarshal(freshnessNames, b, f) }

// Axes are the four independent states of a belief. The zero value is a new candidate: unverified,
// hidden, clean, fresh.
type Axes struct {
	Truth     Truth     `json:"truth"`
	Retrieval Retrieval `json:"retrieval"`
	Security  Security  `json:"security"`
	Freshness Freshness `json:"freshness"`
}
