package streams

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func frameOf(n int) (entries []*Entry) {
	for i := range n {
		entries = append(entries, &Entry{Partition: 3, Stage: StageIngest, Type: TypeObservation, Project: "p",
			Src: uint64(7 + i), At: 4,
			Salt: NewSalt(), Body: fmt.Appendf(nil, "{\"n\":%d,\"text\":\"a\\nb\"}", i)})
	}
	return entries
}

func TestAFrameGivesItsEntriesBack(t *testing.T) {
	now := time.Now().UTC()
	for _, n := range []int{1, 2, MaxFrame} {
		in := frameOf(n)
		m := Frame(in)
		out, err := ParseEntries(m.Subject, m.Header, m.Body, 12, now)
		if err != nil || len(out) != n {
			t.Fatalf("%d of %d entries: %v", len(out), n, err)
		}
		for i, e := range out {
			want := *in[i]
			want.Seq, want.Index, want.Time = 12, i, now
			if fmt.Sprint(e) != fmt.Sprint(want) {
				t.Errorf("entry %d is %+v, want %+v", i, e, want)
			}
			if e.Position() != 12+uint64(i)<<44 {
				t.Errorf("entry %d is at position %d", i, e.Position())
			}
		}
		// The headers are those of the last entry, so that a reader of headers knows where to
		// continue.
		if head, err := ParseEntry(m.Subject, m.Header, m.Body, 12, now); err != nil || head.Src != in[n-1].Src ||
			head.Salt != in[n-1].Salt || head.At != 4 {
			t.Errorf("the headers say %+v (%v)", head, err)
		}
	}
	// The message of a single entry is the same as before frames existed.
	if one := frameOf(1); fmt.Sprint(Frame(one)) != fmt.Sprint(one[0].Message()) {
		t.Error("a single entry has another message than its own")
	}
}

func TestABrokenFrameIsNoEntriesAtAll(t *testing.T) {
	for name, breaks := range map[string]func(body, count string) (string, string){
		"it is cut off":             func(b, c string) (string, string) { return b[:len(b)-1], c },
		"an entry is missing":       func(b, c string) (string, string) { return b[strings.Index(b, "}\n")+2:], c },
		"there is one more":         func(b, c string) (string, string) { return b[:strings.Index(b, "}\n")+2] + b, c },
		"it is empty":               func(_, _ string) (string, string) { return "", "0" },
		"no count":                  func(b, _ string) (string, string) { return b, "" },
		"a count beyond all bounds": func(b, _ string) (string, string) { return b, "1000000000" },
		"a length beyond the end": func(b, c string) (string, string) {
			return strings.Replace(b, " 21\n", " 2147483647\n", 1), c
		},
		"a negative length": func(b, c string) (string, string) { return strings.Replace(b, " 21\n", " -1\n", 1), c },
		"a proposal within": func(b, c string) (string, string) {
			return strings.Replace(b, "observation", "action", 1), c
		},
		"a frame within": func(b, c string) (string, string) { return strings.Replace(b, "observation", "frame", 1), c },
		"a salt that is none": func(b, c string) (string, string) {
			f := strings.Fields(b)
			return strings.Replace(b, f[2], "xx", 1), c
		},
		"another last entry": func(b, c string) (string, string) {
			return strings.Replace(b, "observation 9 ", "observation 8 ", 1), c
		},
	} {
		m := Frame(frameOf(3))
		body, count := breaks(string(m.Body), "3")
		if body == string(m.Body) && count == "3" {
			t.Fatalf("%s: nothing is broken in %q", name, body)
		}
		m.Header[HeaderCount] = []string{count}
		out, err := ParseEntries(m.Subject, m.Header, []byte(body), 12, time.Now())
		if err == nil || len(out) != 1 || out[0].Seq != 12 || out[0].Stage != StageIngest {
			t.Errorf("%s: %d entries, %v", name, len(out), err)
		}
	}
}

func FuzzParseFrame(f *testing.F) {
	m := Frame(frameOf(3))
	f.Add(m.Body, "3")
	f.Add([]byte("observation 1 00000000000000000000000000000000 0\n\n"), "1")
	f.Fuzz(func(t *testing.T, body []byte, count string) {
		h := Frame(frameOf(2)).Header
		h[HeaderCount] = []string{count}
		out, err := ParseEntries(LedgerSubject(3, StageIngest), h, body, 12, time.Now())
		if err != nil {
			if len(out) != 1 {
				t.Fatalf("%d entries of what is no frame", len(out))
			}
			return
		}
		size := 0
		for i := range out {
			size += len(out[i].Body)
		}
		if len(out) > MaxFrame || size > len(body) {
			t.Fatalf("%d entries with %d bytes of a body of %d", len(out), size, len(body))
		}
	})
}
