package fit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestATextIsScoredByWeightsThatHaveNotSeenItsDataSet(t *testing.T) {
	var b strings.Builder
	for i := range 40 {
		for _, set := range []string{"ASB", "BIPIA", "InjecAgent"} {
			fmt.Fprintf(&b, `{"dataset":%q,"label":"benign","content":"The gate opens at %d in house %d.","meta":{}}`+"\n",
				set, i, i)
		}
		fmt.Fprintf(&b, `{"dataset":"ASB","label":"attack","signal":"strong","content":"zorb quux flarn to the blick %d","meta":{}}`+"\n", i)
	}
	name := filepath.Join(t.TempDir(), "lines.jsonl")
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	texts, err := Load([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	c := New(texts)
	seen := func(set string) bool {
		for _, e := range c.examples {
			if e.source == set+"1" && e.group != GroupOf(set) {
				return true
			}
		}
		return false
	}
	if len(texts) < drawnLines || seen("ASB") {
		t.Errorf("%d texts; a text of ASB is in another group: %v", len(texts), seen("ASB"))
	}
	for _, set := range []string{"ASB", "a set that nobody knows"} {
		if points, err := c.Score(set, "The gate opens at 3 in house 3."); err != nil || points > 30 {
			t.Errorf("%s: %d points, %v", set, points, err)
		}
	}
	if len(c.models) != 2 {
		t.Errorf("%d models, want one for each group of data sets", len(c.models))
	}
	all, err := c.Without(GroupCount)
	if err != nil {
		t.Fatal(err)
	}
	attack := "zorb quux flarn to the blick 7"
	if x, y := c.models[GroupOf("ASB")].Score(attack).Points, all.Score(attack).Points; x >= y {
		t.Errorf("%d points by weights that have not seen it, %d by others", x, y)
	}
}
