package text

import (
	"strings"
	"unicode/utf8"
)

// Kind is the type of a carrier.
type Kind string

// The kinds of carriers. The comments describe the canonical form of their values.
const (
	Email   Kind = "email"   // lower case
	URL     Kind = "url"     // scheme and host in lower case, without default port and fragment
	Host    Kind = "host"    // lower case, no trailing dot; the host of an e-mail address or URL is a carrier too
	IP      Kind = "ip"      // as netip prints it; in a URL also found if it is one number, octal or hexadecimal
	IBAN    Kind = "iban"    // upper case, no spaces; the checksum is verified
	Card    Kind = "card"    // first six and last four digits, and a digest, of a payment card with a valid Luhn digit
	Phone   Kind = "phone"   // + and digits
	Path    Kind = "path"    // file path, case kept, dots resolved
	HexKey  Kind = "hexkey"  // a key or digest: 32, 40, 64 or 128 hex digits in lower case
	Secret  Kind = "secret"  // first characters and a digest of an API key, a JWT, a private key or a password in a URL
	Opaque  Kind = "opaque"  // an identifier, perhaps a key: 20 or more letters and digits, mixed
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

// Limits on the carriers of one content. With maxPerKind, many carriers of one kind cannot displace
// those of other kinds.
const (
	maxCarriers = 128
	maxPerKind  = 32
	maxValue    = 256 // bytes; the end of a longer value is replaced by a digest
)

// carrierSet keeps the first occurrence of each carrier.
type carrierSet struct {
	found []Carrier
	seen  map[carrierKey]struct{}
	count map[Kind]int
	full  bool
	aws   awsKeys
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
	cs.found, cs.full, cs.aws = cs.found[:0], false, awsKeys{}
}

func (cs *carrierSet) add(kind Kind, value, via string) {
	if kind == keyID || kind == keyPart {
		cs.aws.add(kind, value, via)
		return
	}
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
	key.value = strings.Clone(value) // a copy, so that the content can be freed
	cs.seen[key] = struct{}{}
	cs.count[kind]++
	cs.found = append(cs.found, Carrier{Kind: kind, Value: key.value, Via: via})
}

func (cs *carrierSet) list() []Carrier {
	cs.pairAWS()
	if len(cs.found) == 0 {
		return nil
	}
	return append([]Carrier(nil), cs.found...)
}

// masked returns a canonical form of a secret value that must not appear in alerts and indexes: its first and last
// characters and a digest. Equal values have equal forms. The form does not protect a value that an attacker can find
// by trying all possible values.
func masked(value string, first, last int) string {
	return value[:first] + "…" + value[len(value)-last:] + "#" + shortDigest(value)
}
