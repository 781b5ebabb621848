package index

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// Random operations on a MemStore and on a map must give the same results.
func TestAStoreInMemoryIsAMap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	st, want := NewMemStore(), make(map[string]string)
	for i := range 200_000 {
		k := fmt.Sprintf("%c%d", 'a'+rune(r.IntN(4)), r.IntN(3000))
		switch r.IntN(6) {
		case 0, 1, 2:
			v := strings.Repeat(fmt.Sprint(i), r.IntN(20))
			if err := st.Set([]byte(k), []byte(v)); err != nil {
				t.Fatal(err)
			}
			want[k] = v
		case 3:
			if r.IntN(2000) == 0 {
				if err := st.DropPrefix([]byte(k[:1])); err != nil {
					t.Fatal(err)
				}
				for w := range want {
					if w[0] == k[0] {
						delete(want, w)
					}
				}
			}
		}
		v, ok, err := st.Get([]byte(k))
		if w, had := want[k]; err != nil || ok != had || !bytes.Equal(v, []byte(w)) {
			t.Fatalf("step %d: %q is %q, %v, want %q, %v", i, k, v, ok, w, had)
		}
	}
	if st.wasted > 8*memChunk {
		t.Errorf("%d of %d bytes are wasted", st.wasted, st.total)
	}
	for k, w := range want {
		if v, ok, _ := st.Get([]byte(k)); !ok || string(v) != w {
			t.Fatalf("%q is %q, want %q", k, v, w)
		}
	}
}
