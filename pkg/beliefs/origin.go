package beliefs

import "slices"

// Origin is the kind of sender or source of a content, such as user, tool or web. A credential may publish only to
// subjects with certain origins.
type Origin string

// The origins.
const (
	OriginUser     Origin = "user"     // the person the agent works for
	OriginSystem   Origin = "system"   // the operator: system prompts, configuration
	OriginTool     Origin = "tool"     // the result of a tool call
	OriginDocument Origin = "document" // a file, a retrieved chunk
	OriginWeb      Origin = "web"
	OriginEmail    Origin = "email"
	OriginAgent    Origin = "agent" // the model itself
)

// origins lists the origins, most trusted first. Among external origins, the order matters only if Weakest must choose
// between two of them.
var origins = []Origin{OriginSystem, OriginUser, OriginAgent, OriginTool, OriginDocument, OriginEmail, OriginWeb}

// Origins lists all origins, most trusted first.
func Origins() []Origin { return slices.Clone(origins) }

// Valid reports whether o is an origin.
func (o Origin) Valid() bool { return slices.Contains(origins, o) }

// External reports whether content of this origin was written by someone outside the conversation
// of user, operator and model. The content of a tool result is external: the tool confirms that it
// fetched the content, not that the content is true.
func (o Origin) External() bool {
	switch o {
	case OriginUser, OriginSystem, OriginAgent:
		return false
	}
	return true
}

// Weakest returns the least trusted of the origins. An unknown origin is the weakest. Without arguments, Weakest
// returns "".
func Weakest(os ...Origin) Origin {
	var w Origin
	rank := -1
	for _, o := range os {
		r := slices.Index(origins, o)
		if r < 0 {
			r = len(origins)
		}
		if r > rank {
			rank, w = r, o
		}
	}
	return w
}

// Quality is the class of a piece of evidence. The classes are ordered from the strongest to the weakest. Whether a
// belief may become supported depends on the strongest class that supports it (MaySupport), never on the number of
// pieces.
type Quality uint8

// The values of Quality.
const (
	NoQuality Quality = iota // no evidence
	DirectObservation
	HumanAssertion
	ToolResult
	ModelInference
	ExternalDocument
	SyntheticProbe // never counts
)

var qualityNames = enum{"quality", []string{"", "direct_observation", "human_assertion", "tool_result",
	"model_inference", "external_document", "synthetic_probe"}}

func (q Quality) String() string { return qualityNames.name(uint8(q)) }

// MarshalText implements encoding.TextMarshaler.
func (q Quality) MarshalText() ([]byte, error) { return qualityNames.marshal(uint8(q)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (q *Quality) UnmarshalText(b []byte) error { return unmarshal(qualityNames, b, q) }

// Weight returns how much evidence of this class adds to the strength, from 0 to 1. Strength is used for ranking. A
// high strength alone never makes a belief supported.
func (q Quality) Weight() float64 {
	switch q {
	case DirectObservation:
		return 1.0
	case HumanAssertion:
		return 0.85
	case ToolResult:
		return 0.7
	case ModelInference:
		return 0.4
	case ExternalDocument:
		return 0.3
	}
	return 0
}

// MaySupport reports whether evidence of this class alone can make a belief supported. If MaySupport is false for a
// class, evidence of that class never makes a belief supported, however often its content is repeated.
func (q Quality) MaySupport() bool {
	return q == DirectObservation || q == HumanAssertion || q == ToolResult
}

// Stronger reports whether class q is stronger than class r. The class of a synthetic probe, and no evidence at all,
// are weaker than all others.
func (q Quality) Stronger(r Quality) bool { return q.rank() < r.rank() }

func (q Quality) rank() int {
	if q == NoQuality || q == SyntheticProbe {
		return int(SyntheticProbe) + 1
	}
	return int(q)
}

// QualityOf returns the class of evidence that content from origin o is.
func QualityOf(o Origin) Quality {
	switch o {
	case OriginUser, OriginSystem:
		return HumanAssertion
	case OriginAgent:
		return ModelInference
	}
	return ExternalDocument
}

// ClaimKind is the kind of a claim: that a tool returned something, that a content says something, or a memory.
type ClaimKind uint8

// The values of ClaimKind.
const (
	NoClaim     ClaimKind = iota
	Envelope              // a tool was called and returned
	Content               // the statements of the returned content
	MemoryClaim           // content of a memory write
)

var claimKindNames = enum{"claim kind", []string{"", "envelope", "content", "memory"}}

func (c ClaimKind) String() string { return claimKindNames.name(uint8(c)) }

// MarshalText implements encoding.TextMarshaler.
func (c ClaimKind) MarshalText() ([]byte, error) { return claimKindNames.marshal(uint8(c)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *ClaimKind) UnmarshalText(b []byte) error { return unmarshal(claimKindNames, b, c) }
