package notify

import (
	"os"
	"strings"
	"testing"
)

func TestDeadLettersAreBoundedAndTheLatestAreKept(t *testing.T) {
	data := t.TempDir()
	dir := Dir(data)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	const each, letters = 1 << 19, 120 // 60 MiB
	long := strings.Repeat("x", each)
	for i := range uint64(letters) {
		if err := bury(dir, Dead{Route: "r", Entry: i + 1, Error: long}); err != nil {
			t.Fatal(err)
		}
	}
	var size int64
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		st, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		size += st.Size()
	}
	if most := int64(2 * (mostDead + each + 1000)); size > most {
		t.Errorf("the dead letters take %d bytes, at most %d are wanted", size, most)
	}
	list, err := DeadLetters(data)
	if err != nil || len(list) < mostDead/each {
		t.Fatalf("%d dead letters are listed, %v", len(list), err)
	}
	for i, d := range list {
		if d.Entry != uint64(letters-len(list)+i+1) {
			t.Fatalf("letter %d of %d is of the entry %d", i, len(list), d.Entry)
		}
	}
}
