package ingest

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

func plainRecord() *record {
	r := &record{Ref: streams.BeliefRef{ID: "b1", Found: true, Kind: beliefs.Content,
		Axes: beliefs.Axes{Retrieval: beliefs.Restricted}, Quality: beliefs.ExternalDocument,
		Origin: beliefs.OriginWeb, Confidence: 0.3, Source: "https://a.example/", Observation: "o1"}, Content: "some words",
		Agent: "a", Session: "s", Tool: "web.get",
		At: time.Unix(1_700_000_000, 5).UTC(), Intake: 77, Count: 1, Digest: streams.Digest([]byte("some words"))}
	r.adopt()
	return r
}

// A decoded record equals the stored one, whichever field of it or of its parts is changed. The
// test also covers fields that are added later.
func TestARecordComesBackAsItWasKept(t *testing.T) {
	short, long := 0, 0
	check := func(name string, r *record) {
		t.Helper()
		st := stage.NewMemState(0)
		if err := putRecord(st, "p", r); err != nil {
			t.Fatal(err)
		}
		v, ok, err := st.Get(stage.Key(keyBelief, "p", r.Ref.ID))
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if v[0] == shortRecord {
			short++
		} else {
			long++
		}
		back := new(record)
		if err := readRecord(r.Ref.ID, v, back); err != nil {
			t.Fatal(name, err)
		}
		want, err := streams.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := streams.Marshal(back)
		if err != nil || string(got) != string(want) {
			t.Errorf("%s changed:\n got %s\nwant %s", name, got, want)
		}
	}
	r := plainRecord()
	check("nothing", r)
	if short != 1 {
		t.Fatal("a plain record is not kept in the short form")
	}
	var walk func(name string, get func(*record) reflect.Value, typ reflect.Type)
	walk = func(name string, get func(*record) reflect.Value, typ reflect.Type) {
		set := func(change func(v reflect.Value)) {
			r := plainRecord()
			v := get(r)
			if !v.CanSet() {
				return // stored separately
			}
			change(v)
			check(name, r)
		}
		switch {
		case typ == reflect.TypeFor[time.Time]():
			set(func(v reflect.Value) { v.Set(reflect.ValueOf(time.Unix(1_800_000_000, 0).UTC())) })
			set(func(v reflect.Value) { v.Set(reflect.ValueOf(time.Time{})) })
		case typ.Kind() == reflect.Struct:
			for i := range typ.NumField() {
				walk(name+"."+typ.Field(i).Name, func(r *record) reflect.Value { return get(r).Field(i) }, typ.Field(i).Type)
			}
		case typ.Kind() == reflect.String:
			set(func(v reflect.Value) { v.SetString("changed") })
			set(func(v reflect.Value) { v.SetString("") })
		case typ.Kind() == reflect.Bool:
			set(func(v reflect.Value) { v.SetBool(!v.Bool()) })
		case typ.Kind() == reflect.Uint8:
			for n := range uint64(3) {
				set(func(v reflect.Value) { v.SetUint(n) })
			}
		case typ.Kind() == reflect.Uint32, typ.Kind() == reflect.Uint64:
			set(func(v reflect.Value) { v.SetUint(123456789) })
		case typ.Kind() == reflect.Float64:
			set(func(v reflect.Value) { v.SetFloat(0.123) })
		case typ.Kind() == reflect.Slice:
			set(func(v reflect.Value) { v.SetZero() })
			set(func(v reflect.Value) { v.Set(reflect.MakeSlice(typ, 2, 2)) })
			if typ == reflect.TypeFor[beliefs.EvidenceSet]() {
				walk(name+"[0]", func(r *record) reflect.Value { return get(r).Index(0) }, typ.Elem())
			}
		default:
			t.Errorf("%s has a type that the test does not know: %s", name, typ)
		}
	}
	walk("record", func(r *record) reflect.Value { return reflect.ValueOf(r).Elem() }, reflect.TypeFor[record]())
	if short < 10 || long < 10 {
		t.Errorf("%d in the short form and %d in the long one: the test shows nothing", short, long)
	}
}

// The encoding of a record does not depend on time zones or on nil and empty lists.
func TestARecordIsKeptTheSameWhereverItCameFrom(t *testing.T) {
	a, b := plainRecord(), plainRecord()
	b.At = b.At.In(time.FixedZone("x", 3600))
	b.Evidence[0].At = b.Evidence[0].At.Local()
	b.Parents, b.Conflicts = []streams.Parent{}, []string{}
	var kept [2][]byte
	for i, r := range []*record{a, b} {
		st := stage.NewMemState(0)
		if err := putRecord(st, "p", r); err != nil {
			t.Fatal(err)
		}
		kept[i], _, _ = st.Get(stage.Key(keyBelief, "p", "b1"))
	}
	if string(kept[0]) != string(kept[1]) {
		t.Errorf("%x\n%x", kept[0], kept[1])
	}
}

func TestWhatIsReadAgainIsCounted(t *testing.T) {
	st, f, r := stage.NewMemState(0), New(Config{}), plainRecord()
	if err := putRecord(st, "p", r); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := f.noteAgain(st, "p", "b1", r.At.Add(time.Duration(i+1)*time.Hour)); err != nil {
			t.Fatal(err)
		}
		back, err := f.belief(st, "p", "b1")
		if err != nil || back.times() != uint64(i+2) || !back.last().Equal(r.At.Add(time.Duration(i+1)*time.Hour)) {
			t.Fatalf("read %d times, last %s, %v", back.times(), back.last(), err)
		}
		// Writing it does not count twice.
		if err := putRecord(st, "p", back); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzReadRecord(f *testing.F) {
	st := stage.NewMemState(0)
	if err := putRecord(st, "p", plainRecord()); err != nil {
		f.Fatal(err)
	}
	v, _, _ := st.Get(stage.Key(keyBelief, "p", "b1"))
	f.Add(v)
	f.Add((&reading{Texts: []string{"a", "bc"}, Cut: true}).short())
	long := plainRecord()
	long.Ref.Staged = true // a short record cannot say so
	if err := putRecord(st, "p", long); err != nil {
		f.Fatal(err)
	}
	v, _, _ = st.Get(stage.Key(keyBelief, "p", "b1"))
	f.Add(v)
	f.Fuzz(func(t *testing.T, v []byte) {
		r := new(record)
		bad := readRecord("b1", v, r)
		if bad == nil && len(v) > 0 && v[0] == shortRecord && r.Ref.ID != "b1" {
			t.Fatal("another belief")
		}
		if err := st.Set(stage.Key(keyBelief, "p", "b1"), v); err != nil {
			t.Fatal(err)
		}
		if ref, ok, err := new(Fold).beliefRef(st, "p", "b1"); bad == nil && (err != nil || !ok ||
			!reflect.DeepEqual(ref, r.Ref)) {
			t.Fatalf("the reference to %+v is read as %+v, %v", r, ref, err)
		}
		if rd, err := readReading(v); err == nil {
			if back, err := readReading(rd.short()); err != nil || fmt.Sprint(*back) != fmt.Sprint(*rd) {
				t.Fatal(rd, back, err)
			}
		}
	})
}
