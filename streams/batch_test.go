package streams

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

func TestABatchIsReadEventByEvent(t *testing.T) {
	const good = `{"specversion":"1.0","id":"a","source":"s","type":"t","data":{"content":"x"}}`
	for name, c := range map[string]struct {
		body string
		want string // the expected ids of the events; "!" stands for an element that is not a valid event
	}{
		"two":                   {"[" + good + "," + strings.Replace(good, `"a"`, `"b"`, 1) + "]", "a b"},
		"base64":                {`[{"specversion":"1.0","id":"a","data_base64":"e30="}]`, "a"},
		"no data":               {`[{"specversion":"1.0","id":"a"},` + good + `]`, "! a"},
		"no id":                 {`[{"specversion":"1.0","data":{}},` + good + `]`, "! a"},
		"no event":              {`[7,` + good + `,null]`, "! a !"},
		"another version":       {`[` + strings.Replace(good, "1.0", "0.3", 1) + `]`, "!"},
		"twice data":            {`[{"specversion":"1.0","id":"a","data":{},"data_base64":"e30="}]`, "!"},
		"another content":       {`[{"specversion":"1.0","id":"a","datacontenttype":"text/xml","data":"<a/>"}]`, "!"},
		"a name twice":          {`[{"specversion":"1.0","id":"a","id":"b","data":{}}]`, ""},
		"an object":             {good, ""},
		"nothing":               {"[]", ""},
		"cut off":               {"[" + good + ",", ""},
		"something behind":      {"[" + good + "] 7", ""},
		"no JSON":               {"\x00", ""},
		"more than are allowed": {"[" + strings.Repeat(good+",", MaxBatch) + good + "]", ""},
	} {
		events, bad := ParseBatch(KindObs, []byte(c.body))
		var got []string
		for _, e := range events {
			if e.Bad != nil {
				got = append(got, "!")
			} else {
				got = append(got, e.ID)
			}
		}
		if strings.Join(got, " ") != c.want || (bad == nil) != (c.want != "") {
			t.Errorf("%s: %q and %v, want %q", name, got, bad, c.want)
		}
	}
	if _, bad := ParseBatch(KindAct, []byte("["+good+"]")); bad == nil {
		t.Error("a batch of actions is read")
	}
	// A batch that MarshalBatch wrote must be read back unchanged.
	o := &Observation{Head: Head{ID: "o1"}, Content: "words"}
	body, err := MarshalBatch([]Event{o, &Observation{Head: Head{ID: "o2"}}})
	if err != nil {
		t.Fatal(err)
	}
	events, bad := ParseBatch(KindObs, body)
	if bad != nil || len(events) != 2 || events[1].ID != "o2" || !strings.Contains(string(events[0].Data), "words") {
		t.Errorf("the batch that MarshalBatch wrote is read as %+v, %v", events, bad)
	}
	for value, want := range map[string]bool{BatchContentType: true,
		"Application/CloudEvents-batch+JSON; charset=utf-8": true, "application/json": false, "": false} {
		if got := IsBatch(nats.Header{"content-type": {value}}); got != want {
			t.Errorf("content type %q: IsBatch says %v", value, got)
		}
	}
}

// readBatchEvent has a fast path for simple elements. For each element, it must give the same event as batchEvent, the
// general function.
func TestAnElementOfABatchIsTheSameEventInBothWays(t *testing.T) {
	fields := [][]string{
		{`"specversion":"1.0"`, `"specversion":1`, `"specversion" : "1.0"`, `"specVersion":"1.0"`, `"specversion":"1\u002e0"`},
		{`"id":"a"`, `"id":""`, `"id":null`, `"id":"\u0061"`, `"id":"é"`, `"id":7`, `"ID":"a"`, `"\u0069d":"a"`},
		{`"source":"s"`, `"source":{"A":[1]}`, `"x":"\""`, `"Data":{}`, `"a-B":1`},
		{`"data":{"content":"x"}`, `"data": { "Id" : [ 1 , "}" ] } `, `"data":null`, `"data":"x"`, `"data_base64":"e30="`,
			`"data":{},"data_base64":""`, `"data":{},"data_base64":"e30="`, `"data":{"id":"a","ID":"b"}`},
		{`"datacontenttype":"application/json"`, `"datacontenttype":"Application/JSON"`, `"datacontenttype":"text/xml"`,
			`"datacontenttype":null`},
	}
	var check func(element string, fields [][]string)
	check = func(element string, fields [][]string) {
		if len(fields) > 0 {
			for _, f := range append(fields[0], fmt.Sprintf(`"x%d":1`, len(fields))) { // the last one: it is missing
				check(element+","+f, fields[1:])
			}
			return
		}
		element = "{" + element[1:] + "}"
		got, bad := ParseBatch(KindObs, []byte(" [ "+element+", 7]"))
		if want := batchEvent([]byte(element)); bad != nil || len(got) != 2 || !reflect.DeepEqual(got[0], want) {
			t.Errorf("%s:\n%+v %v, want\n%+v", element, got, bad, want)
		}
	}
	check("", fields)
}

func BenchmarkParseBatch(b *testing.B) {
	events := make([]Event, 64)
	for i := range events {
		events[i] = &Observation{Head: Head{ID: "a"}, Content: strings.Repeat("some words ", 90)}
	}
	body, err := MarshalBatch(events)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, bad := ParseBatch(KindObs, body); bad != nil {
			b.Fatal(bad)
		}
	}
}

// Ingest parses a message more than once, and would lose events of a batch that it takes for a single event once.
func TestAContentTypeThatIsThereTwiceIsReadTheSameEachTime(t *testing.T) {
	for range 100 {
		h := nats.Header{"Content-Type": {"application/json"}, "content-type": {"text/plain", BatchContentType}}
		if !IsBatch(h) {
			t.Fatal("a message with the content type of a batch and another one was read as a single event")
		}
	}
}
