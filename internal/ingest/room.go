package ingest

import (
	"slices"
	"unicode/utf8"

	"lazaret/streams"
)

// The entry of a recall repeats texts that are in the ledger already, so that sentinels judge
// exactly the texts that the agent receives. These constants limit the size of the texts.
const (
	// recallBytes is the maximum size of the encoded items of one recall. Candidates that a gate
	// sends with its request are not counted.
	recallBytes = 64 << 10
	// leastServed is the minimum size of a served part of a text, in bytes.
	leastServed = 256
)

// jsonLen returns an upper bound of the size of a text as JSON, in bytes, without its quotes. It
// returns most if that is smaller than the bound.
func jsonLen(s string, most int) int {
	n := 0
	for i := 0; i < len(s) && n < most; i++ {
		n += encoded(s[i])
	}
	return min(n, most)
}

// encoded returns how many bytes a byte of a text needs in JSON.
func encoded(b byte) int {
	switch {
	case b == '"', b == '\\', b == '\n', b == '\r', b == '\t':
		return 2
	case b < ' ':
		return 6
	}
	return 1
}

// excerpt returns the longest beginning of a text that takes at most room bytes as JSON.
func excerpt(s string, room int) string {
	for i := range len(s) {
		if room -= encoded(s[i]); room < 0 {
			return cut(s, i)
		}
	}
	return s
}

// after returns a text without its first n bytes. If these end within a character, it
// removes a few bytes less.
func after(s string, n int) string {
	if n >= len(s) {
		return ""
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[n:]
}

// serving is an item of a recall and the text that may be served of it.
type serving struct {
	item    *streams.RecallItem
	text    string
	size    int    // size of the whole text in bytes; 0: unknown
	digest  string // digest of a memory's whole text
	brought bool   // the request contains the text
}

// share fills in the texts of a recall's items, as far as there is room. Each text gets
// the same share of the room, and longer texts share the room that shorter ones leave. It
// returns how many items fit, and whether a text was cut for lack of room.
func share(all []serving, room int) (fit int, short bool, err error) {
	needs := make([]int, 0, len(all))
	least := 0
	var bare streams.RecallItem
	for i := range all {
		s := &all[i]
		bare = *s.item
		bare.Partial, bare.Size, bare.Digest = true, s.size, s.digest
		size, err := streams.Size(&bare)
		if err != nil {
			return 0, false, err
		}
		need := 0
		if !s.brought {
			need = jsonLen(s.text, room)
		}
		if size+1+least+min(need, leastServed) > room {
			break
		}
		room -= size + 1
		least += min(need, leastServed)
		needs = append(needs, need)
	}
	fit = len(needs)
	level := waterLevel(slices.Clone(needs), room)
	for i, s := range all[:fit] {
		s.item.Content = s.text
		if needs[i] > level {
			s.item.Content = excerpt(s.text, level)
			s.item.Partial, short = true, true
		}
		if s.item.Partial {
			s.item.Size, s.item.Digest = s.size, s.digest
		}
	}
	return fit, short, nil
}

// waterLevel returns the largest number to which all larger needs can be lowered so that
// their sum is within room.
func waterLevel(needs []int, room int) int {
	slices.Sort(needs)
	for i, n := range needs {
		if level := room / (len(needs) - i); n > level {
			return level
		}
		room -= n
	}
	return room
}
