package streams

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
)

func frameOf(n int) (entries []*Entry) {
	for i := range n {
		entries = append(entries, &Entry{Partition: 3, Stage: StageIngest, Type: TypeObservation, Project: "p",
			Src: uint64(7 + i), At: 4,
			Salt: NewSalt(), Body: fmt.Appendf(nil, "{\"n\":%d,\"text\":\"a\\nb\"}", i)})
	}
	return entries
}

// plainFrame returns a frame as formats 2 to 5 have it: not compressed.
func plainFrame(t testing.TB, entries []*Entry) Message {
	m := Frame(entries)
	body, err := s2.Decode(nil, m.Body)
	if err != nil {
		t.Fatal(err)
	}
	delete(m.Header, HeaderEncoding)
	m.Body = body
	return m
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
		// A reader that reads only the headers must see the last entry's input, so that it knows where to continue.
		if head, err := ParseEntry(m.Subject, m.Header, m.Body, 12, now); err != nil || head.Src != in[n-1].Src ||
			head.Salt != in[n-1].Salt || head.At != 4 {
			t.Errorf("the headers say %+v (%v)", head, err)
		}
		if n == 1 {
			continue
		}
		plain := plainFrame(t, in)
		same, err := ParseEntries(plain.Subject, plain.Header, plain.Body, 12, now)
		if err != nil || fmt.Sprint(same) != fmt.Sprint(out) {
			t.Errorf("without compression the entries are %v (%v), want %v", same, err, out)
		}
		if n == MaxFrame && len(m.Body) > len(plain.Body)*2/3 {
			t.Errorf("%d entries of the same form take %d bytes, and %d when not compressed", n, len(m.Body), len(plain.Body))
		}
	}
	// A frame of one entry must be the same message as Entry.Message returns.
	if one := frameOf(1); fmt.Sprint(Frame(one)) != fmt.Sprint(one[0].Message()) {
		t.Error("the frame of a single entry is not the entry's own message")
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
		m := plainFrame(t, frameOf(3))
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

// Frames have observations, which only ingest writes. A sentinel group must not have the auditor's log store a
// decompressed body for each small message.
func TestAFrameOfAnotherStageIsNoEntriesAtAll(t *testing.T) {
	in := frameOf(2)
	for _, e := range in {
		e.Stage = SentinelStage("more")
	}
	m := Frame(in)
	out, err := ParseEntries(m.Subject, m.Header, m.Body, 12, time.Now())
	if err == nil || len(out) != 1 || len(out[0].Body) != len(m.Body) {
		t.Errorf("%d entries, %v, want an error and the message's own body", len(out), err)
	}
}

// Snappy compresses nothing more than this frame, and it must be read.
func TestAFrameOfZerosIsRead(t *testing.T) {
	in := frameOf(2)
	in[0].Body = make([]byte, MaxFrameBytes-len(in[1].Body))
	m := Frame(in)
	if out, err := ParseEntries(m.Subject, m.Header, m.Body, 12, time.Now()); err != nil || len(out) != 2 {
		t.Errorf("%d entries from %d bytes: %v", len(out), len(m.Body), err)
	}
}

func TestAFrameThatCannotBeDecompressedIsNoEntriesAtAll(t *testing.T) {
	good := Frame(frameOf(3))
	for name, c := range map[string]struct{ encoding, body, want string }{
		"another encoding": {"zstd", string(good.Body), `Lz-Encoding is "zstd", want snappy or no such header`},
		"it is cut off":    {"snappy", string(good.Body[:len(good.Body)-1]), "not in the block format of Snappy"},
		"it is plain":      {"snappy", string(plainFrame(t, frameOf(3)).Body), "not in the block format of Snappy"},
		"it is empty":      {"snappy", "", "not in the block format of Snappy"},
		"it is huge":       {"snappy", string(s2.EncodeSnappy(nil, make([]byte, 1<<20))), "has 1048576 bytes when decompressed"},
		// The decoder also reads S2, which compresses zeros to almost nothing.
		"it is S2": {"snappy", string(s2.Encode(nil, make([]byte, 512<<10))), "at most 22 times as many"},
		"it only says that it is huge": {"snappy", "\x80\x80\x80\x80\x04\x00a",
			"has 1073741824 bytes when decompressed"},
	} {
		h := maps.Clone(good.Header)
		h[HeaderEncoding] = []string{c.encoding}
		out, err := ParseEntries(good.Subject, h, []byte(c.body), 12, time.Now())
		if err == nil || len(out) != 1 || out[0].Seq != 12 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d entries, %v, want an error with %q", name, len(out), err, c.want)
		}
	}
}

// jointOf returns a proposal and the answers to it, as if they were in ledger message 12.
func jointOf() (entries []*Entry) {
	for i, e := range []Entry{
		{Stage: StageIngest, Type: TypeAction, Src: 7, At: 4},
		{Stage: SentinelStage("core"), Type: TypeAssessment, Src: 12},
		{Stage: SentinelStage("more"), Type: TypeAssessment, Src: 12},
		{Stage: StageArbiter, Type: TypeVerdict, Src: 12 + 2<<44},
	} {
		e.Partition, e.Project, e.Salt, e.Body, e.Seq, e.Index, e.Joint = 3, "p", NewSalt(), fmt.Appendf(nil, `{"n":%d}`, i), 12, i, true
		entries = append(entries, &e)
	}
	return entries
}

func TestAJointFrameGivesItsEntriesBack(t *testing.T) {
	at := time.Now().Add(-time.Second).UTC()
	in := jointOf()
	m := JointFrame(in, at)
	out, err := ParseEntries(m.Subject, m.Header, m.Body, 12, time.Now())
	if err != nil || len(out) != len(in) || m.Subject != "lz.ledger.3.joint" {
		t.Fatalf("%d of %d entries on %s: %v", len(out), len(in), m.Subject, err)
	}
	for i, e := range out {
		want := *in[i]
		want.Time = at
		if fmt.Sprint(e) != fmt.Sprint(want) {
			t.Errorf("entry %d is %+v, want %+v", i, e, want)
		}
	}
}

func TestABrokenJointFrameIsNoEntriesAtAll(t *testing.T) {
	type message struct {
		header map[string][]string
		body   string
	}
	for name, c := range map[string]struct {
		breaks any // a function that breaks the entries or the message
		why    string
	}{
		"it is no frame":            {func(m *message) { m.header[HeaderType] = []string{"verdict"} }, "has type"},
		"it has no time":            {func(m *message) { delete(m.header, HeaderTime) }, "want a time"},
		"its time is none":          {func(m *message) { m.header[HeaderTime] = []string{"today"} }, "want a time"},
		"its time is to come":       {func(m *message) { m.header[HeaderTime] = []string{time.Now().Add(time.Hour).Format(time.RFC3339Nano)} }, "was stored at"},
		"it has no proposal":        {func(e []*Entry) { e[0].Type = TypeObservation }, "want a proposal"},
		"a sentinel's is the first": {func(e []*Entry) { e[0].Stage = SentinelStage("core") }, "want a proposal"},
		"another stage's is in it":  {func(e []*Entry) { e[2].Stage = StageRetention }, "does not answer"},
		"a second one of ingest":    {func(e []*Entry) { e[2].Stage = StageIngest }, "does not answer"},
		"an answer to a later one":  {func(e []*Entry) { e[1].Src = 12 + 2<<44 }, "does not answer"},
		"an answer to itself":       {func(e []*Entry) { e[1].Src = 12 + 1<<44 }, "does not answer"},
		"an answer to an old one":   {func(e []*Entry) { e[1].Src = 11 }, "does not answer"},
		"a stage that is no name":   {func(m *message) { m.body = strings.Replace(m.body, "arbiter ", "ar/biter ", 1) }, "no name"},
		"a type that is no name":    {func(m *message) { m.body = strings.Replace(m.body, " verdict ", " ver/dict ", 1) }, "no name"},
		"a line without a stage":    {func(m *message) { m.body = strings.Replace(m.body, "arbiter ", "", 1) }, "stage, type"},
		"it is cut off":             {func(m *message) { m.body = m.body[:len(m.body)-1] }, ""},
		"an entry is missing":       {func(m *message) { m.header[HeaderCount] = []string{"3"} }, ""},
	} {
		entries := jointOf()
		if f, ok := c.breaks.(func([]*Entry)); ok {
			f(entries)
		}
		joint := JointFrame(entries, time.Now())
		m := &message{joint.Header, string(joint.Body)}
		if f, ok := c.breaks.(func(*message)); ok {
			f(m)
		}
		out, err := ParseEntries(joint.Subject, m.header, []byte(m.body), 12, time.Now())
		if err == nil || len(out) != 1 || out[0].Seq != 12 || out[0].Stage != StageJoint || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %d entries, %v", name, len(out), err)
		}
	}
	// The same message must be refused on a stage's own subject.
	m := JointFrame(jointOf(), time.Now())
	if _, err := ParseEntries(LedgerSubject(3, StageIngest), m.Header, m.Body, 12, time.Now()); err == nil {
		t.Error("a frame with entries of other stages is accepted on a stage's subject")
	}
}

func FuzzParseJointFrame(f *testing.F) {
	m := JointFrame(jointOf(), time.Now())
	f.Add(m.Body, "4", m.Header[HeaderTime][0])
	f.Add([]byte("ingest action 1 00000000000000000000000000000000 0\n\n"), "1", "2026-11-26T04:00:00Z")
	f.Fuzz(func(t *testing.T, body []byte, count, at string) {
		h := JointFrame(jointOf(), time.Now()).Header
		h[HeaderCount], h[HeaderTime] = []string{count}, []string{at}
		out, err := ParseEntries(LedgerSubject(3, StageJoint), h, body, 12, time.Now())
		if err != nil {
			if len(out) != 1 {
				t.Fatalf("%d entries were read from a message that is no frame", len(out))
			}
			return
		}
		var again []*Entry
		for i := range out {
			if e := &out[i]; i == 0 != (e.Stage == StageIngest) || i > 0 && e.Src&(1<<44-1) != 12 {
				t.Fatalf("entry %d is %+v", i, e)
			}
			again = append(again, &out[i])
		}
		m := JointFrame(again, out[0].Time)
		if back, err := ParseEntries(m.Subject, m.Header, m.Body, 12, time.Now()); err != nil || fmt.Sprint(back) != fmt.Sprint(out) {
			t.Fatalf("%v is %v when it is written again (%v)", out, back, err)
		}
	})
}

func FuzzParseFrame(f *testing.F) {
	packed, plain := Frame(frameOf(3)), plainFrame(f, frameOf(3))
	f.Add(packed.Body, "3", true)
	f.Add(plain.Body, "3", false)
	f.Add([]byte("observation 1 00000000000000000000000000000000 0\n\n"), "1", false)
	f.Fuzz(func(t *testing.T, body []byte, count string, isPacked bool) {
		h := Frame(frameOf(2)).Header
		h[HeaderCount] = []string{count}
		if !isPacked {
			delete(h, HeaderEncoding)
		}
		out, err := ParseEntries(LedgerSubject(3, StageIngest), h, body, 12, time.Now())
		if err != nil {
			if len(out) != 1 {
				t.Fatalf("%d entries were read from a message that is no frame", len(out))
			}
			return
		}
		size, most := 0, len(body)
		if isPacked {
			most = maxFrameBody
		}
		for i := range out {
			size += len(out[i].Body)
		}
		if len(out) > MaxFrame || size > most {
			t.Fatalf("%d entries with %d bytes of a body of %d", len(out), size, len(body))
		}
	})
}
