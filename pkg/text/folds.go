package text

// folds.txt is made from confusables.txt of Unicode TR39, which is not in this repository:
//
//	go run folds_gen.go -source confusables.txt -version 13.0.0

import (
	_ "embed"
	"strconv"
	"strings"
	"unicode"
)

//go:embed folds.txt
var foldsText string

// folds maps a rune to the ASCII text that it looks like, in pages of 256 runes. Zero means that
// the rune does not look like ASCII.
var folds = loadFolds(foldsText)

type foldTable struct {
	pages   [0x200]*[256]uint16 // up to U+1FFFF; later runes are not folded
	targets []string
}

func (t *foldTable) lookup(r rune) (string, bool) {
	if uint32(r) >= 0x20000 {
		return "", false
	}
	page := t.pages[r>>8]
	if page == nil || page[r&0xff] == 0 {
		return "", false
	}
	return t.targets[page[r&0xff]], true
}

func loadFolds(data string) *foldTable {
	t := &foldTable{targets: []string{""}}
	for line := range strings.Lines(data) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] == "#" {
			continue
		}
		t.targets = append(t.targets, fields[0])
		for _, f := range fields[1:] {
			r, err := strconv.ParseUint(f, 16, 17)
			if err != nil {
				panic("text: folds.txt is damaged: " + err.Error())
			}
			page := &t.pages[r>>8]
			if *page == nil {
				*page = new([256]uint16)
			}
			(*page)[r&0xff] = uint16(len(t.targets) - 1)
		}
	}
	return t
}

// lower returns the comparison form of a rune that does not look like ASCII: its lower case.
func lower(r rune) rune {
	switch r {
	case 'ς':
		return 'σ'
	}
	return unicode.ToLower(r)
}
