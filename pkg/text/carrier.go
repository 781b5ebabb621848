package text

import (
	"strings"
	"unicode/utf8"
)

// Kind is the type of a carrier.
type Kind string

// The kinds of carriers, with the canonical form of their values.
const (
	Email   Kind = "email"   // lower case
	URL     Kind = "url"     // scheme and host in lower case, no default port, no fragment
	Host    Kind = "host"    // lower case, no trailing dot; also of every e-mail and URL
	IP      Kind = "ip"      // as netip prints it; also of a URL that spells it in one number or in octal or hex
	IBAN    Kind = "iban"    // upper case, no spaces, checksum verified
	Card    Kind = "card"    // payment card, Luhn verified: first six and last four digits and a digest
	Phone   Kind = "phone"   // + and digits
	Path    Kind = "path"    // of a file, case kept, dots resolved
	Crypto  Kind = "crypto"  // address of a cryptocurrency
	HexKey  Kind = "hexkey"  // 32, 40, 64 or 128 hex digits in lower case: a key or a digest
	Secret  Kind = "secret"  // of a known shape (API key, JWT, private key): its first characters and a digest
	Opaque  Kind = "opaque"  // mixed letters and digits, 20 or more: an identifier, perhaps a key
	Handle  Kind = "handle"  // @name in lower case
	Command Kind = "command" // shell command line, white space collapsed
	Number  Kind = "number"  // eight digits or more, no separators
)

// Carrier is a token that can carry an attack from a document to an action. Carriers with the
// same meaning have the same Kind and Value.
type Carrier struct {
	Kind  Kind   `json:"k"`
	Value string `json:"v"`
	// Via names the view in which the carrier was found, as in [View]. It is empty if the
	// carrier was found in the content itself.
	Via string `json:"w,omitempty"`
}

// Bounds on the carriers of one content. maxPerKind keeps many carriers of one kind from
// displacing those of other kinds.
const (
	maxCarriers = 128
	maxPerKind  = 32
	maxValue    = 256 // bytes; what is longer ends in a digest
)

// carrierSet keeps the first occurrence of each carrier.
type carrierSet struct {
	found []Carrier
	seen  map[carrierKey]struct{}
	count map[Kind]int
	full  bool
}

type carrierKey struct {
	kind  Kind
	value string
}

func (cs *carrierSet) reset() {
	if cs.seen == nil {
		cs.seen, cs.count = map[carrierKey]struct{}{}, map[Kind]int{}
	}
	clear(cs.seen)
	clear(cs.count)
	clear(cs.found)
	cs.found, cs.full = cs.found[:0], false
}

func (cs *carrierSet) add(kind Kind, value, via string) {
	if len(value) > maxValue {
		keep := maxValue - 20
		for !utf8.RuneStart(value[keep]) {
			keep--
		}
		value = value[:keep] + "…#" + shortDigest(value)
	}
	key := carrierKey{kind, value}
	if _, ok := cs.seen[key]; ok {
		return
	}
	if len(cs.found) == maxCarriers || cs.count[kind] == maxPerKind {
		cs.full = true
		return
	}
	key.value = strings.Clone(value) // not a part of the content, which it would keep alive
	cs.seen[key] = struct{}{}
	cs.count[kind]++
	cs.found = append(cs.found, Carrier{Kind: kind, Value: key.value, Via: via})
}

func (cs *carrierSet) list() []Carrier {
	if len(cs.found) == 0 {
		return nil
	}
	return append([]Carrier(nil), cs.found...)
}

// masked is the canonical form of a value that should not be repeated in alerts
// and indexes: equal values stay equal. It does not resist a search over few
// possible values.
func masked(value string, first, last int) string {
	return value[:first] + "…" + value[len(value)-last:] + "#" + shortDigest(value)
}
