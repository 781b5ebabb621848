package text

import (
	"maps"
	"slices"
)

// Traits are the facts about a kind of carrier that other packages ask for. A kind
// that is not listed in traits has none.
type Traits struct {
	// Distinctive: two texts hardly share such a value by chance, so that a shared one
	// shows where a text came from.
	Distinctive bool
	// ReachesOut: the value leads out of the project to somebody: an address, and not
	// the number or path of a record that many requests name.
	ReachesOut bool
	// Personal: the value is a secret or somebody's personal data, and is masked in
	// what is handed out.
	Personal bool
	// Spaced: people write the value with spaces or dashes in it.
	Spaced bool
	// Pushed: a source may bring it up again and again to make it believed.
	Pushed bool
}

// traits has a line for each kind that has any. A new kind adds its line here, and
// its finder in a carrier_*.go.
var traits = map[Kind]Traits{
	Email:   {Distinctive: true, ReachesOut: true, Personal: true, Pushed: true},
	URL:     {Distinctive: true, ReachesOut: true},
	Host:    {ReachesOut: true, Pushed: true},
	IP:      {Distinctive: true, ReachesOut: true},
	IBAN:    {Distinctive: true, ReachesOut: true, Personal: true, Spaced: true, Pushed: true},
	Card:    {Distinctive: true, ReachesOut: true, Personal: true, Spaced: true},
	Phone:   {Distinctive: true, ReachesOut: true, Personal: true, Spaced: true},
	Crypto:  {Distinctive: true, ReachesOut: true, Pushed: true},
	HexKey:  {Distinctive: true, Personal: true},
	Secret:  {Distinctive: true, Personal: true},
	Opaque:  {Distinctive: true},
	Handle:  {Distinctive: true, ReachesOut: true, Pushed: true},
	Command: {Distinctive: true, Pushed: true},
}

// Traits returns the traits of a kind.
func (k Kind) Traits() Traits { return traits[k] }

// KindsWith lists the kinds whose traits satisfy a condition, in order.
func KindsWith(has func(Traits) bool) []Kind {
	var out []Kind
	for _, k := range slices.Sorted(maps.Keys(traits)) {
		if has(traits[k]) {
			out = append(out, k)
		}
	}
	return out
}
