package mcpwire

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

func TestAnIDIsKeptOrRefusedAsItIsWritten(t *testing.T) {
	for _, id := range []string{`0`, `-7`, `9007199254740991`, `"24"`, `""`, `"a\"é"`} {
		m, bad := decode([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`))
		if bad != nil {
			t.Errorf("%s is refused: %v", id, bad)
			continue
		}
		if b, err := jsonrpc.EncodeMessage(m[0]); err != nil || !strings.Contains(string(b), `"id":`+id+`,`) {
			t.Errorf("%s is passed on in %s, %v", id, b, err)
		}
	}
	for _, id := range []string{`23.5`, `9007199254740993`, `12345678901234567890`, `1e3`, `1.0`, `-0`, `1e999`} {
		_, bad := decode([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`))
		if bad == nil || bad.code != jsonrpc.CodeInvalidRequest || !strings.Contains(string(bad.answer()), `"id":`+id+`,`) {
			t.Errorf("%s is answered with %v", id, bad)
		}
	}
}

func TestAResponseMayWriteItsIDAsAFloat(t *testing.T) {
	m, bad := decode([]byte(`{"jsonrpc":"2.0","id":7.0,"result":{}}`))
	if bad != nil || m[0].(*jsonrpc.Response).ID.Raw() != int64(7) {
		t.Errorf("%v, %v", m, bad)
	}
	if _, bad := decode([]byte(`{"jsonrpc":"2.0","id":7.5,"result":{}}`)); bad == nil {
		t.Error("the response to 7.5 is read as the one to 7")
	}
	if _, ok := cancelledID(json.RawMessage(`{"requestId":7.5}`)); ok {
		t.Error("a cancellation of 7.5 is one of 7")
	}
}

func TestAnOutermostObjectThatReadersReadDifferentlyIsMarked(t *testing.T) {
	for raw, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`:      "method",
		`{"jsonrpc":"2.0","id":1,"Method":"tools/call","method":"ping"}`:      "Method",
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":{},"params":{}}`:    "params",
		`{"jsonrpc":"2.0","method":"notifications/x","params":{},"params":1}`: "params",
		`{"jsonrpc":"2.0","id":1,"method":"ping","extra":1,"ex\u0074ra":2}`:   "extra",
		`{"jsonrpc":"2.0","id":1,"method":"ping"} {}`:                         "more text",
		`{"jsonrpc":"2.0","id":1,"result":{},"result":{}}`:                    "result",
		`{"jsonrpc":"2.0","id":1,"Result":{},"result":{}}`:                    "Result",
		`{"jsonrpc":"2.0","id":1,"Result":{}}`:                                "Result",
		`{"jsonrpc":"2.0","id":1,"re` + "\u017f" + `ult":{},"result":{}}`:     "ult",
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"code":2,"message":"m"}}`:  "code",
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","Data":2}}`:  "Data",
	} {
		m, bad := decode([]byte(raw))
		if bad != nil || len(m) != 1 {
			t.Errorf("%s: %v, %v", raw, m, bad)
			continue
		}
		var extra any
		switch m := m[0].(type) {
		case *jsonrpc.Request:
			extra = m.Extra
		case *jsonrpc.Response:
			extra = m.Extra
		}
		if err, ok := extra.(error); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is marked with %v", raw, extra)
		}
	}
	for _, raw := range []string{`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"Method":"ping"}`} {
		if m, bad := decode([]byte(raw)); bad == nil {
			t.Errorf("%s is read as %v", raw, m)
		}
	}
	m, bad := decode([]byte(`{"jsonrpc":"2.0","id":1,"Id":2,"result":{}}`))
	if bad != nil || len(m) != 2 {
		t.Fatalf("a response with two ids is read as %v, %v", m, bad)
	}
	for _, m := range m {
		if r := m.(*jsonrpc.Response); r.Extra == nil || r.Result != nil {
			t.Errorf("a response with two ids is read as %+v", r)
		}
	}
}

func TestALineOfAClientThatIsNoMessageIsAnsweredAndTheNextOneIsRead(t *testing.T) {
	in, client := io.Pipe()
	answers, out := io.Pipe()
	s := Stdio(in, out)
	defer s.Close()
	r := bufio.NewReader(answers)
	for _, x := range []struct{ line, want string }{
		{`{"jsonrpc":`, `"id":null`}, {`hello`, `-32700`}, {`[]`, `-32600`}, {`5`, `-32600`},
		{`{"jsonrpc":"1.0","id":6,"method":"ping"}`, `"id":6,`}, {`{"id":"a","method":"ping"}`, `"id":"a",`},
		{`{"jsonrpc":"2.0","id":true,"method":"ping"}`, `"id":null`}, {`{"jsonrpc":"2.0","id":{},"method":"ping"}`, `-32600`},
		{`{"jsonrpc":"2.0","id":50.5,"method":"ping"}`, `"id":50.5,`},
		{`{"jsonrpc":"2.0","id":8,"method":"ping","params":"` + strings.Repeat("x", maxClientLine) + `"}`, "too large"},
	} {
		go io.WriteString(client, x.line+"\n")
		got, err := r.ReadString('\n')
		if err != nil || !strings.Contains(got, x.want) || !strings.Contains(got, `"error"`) || !json.Valid([]byte(got)) {
			t.Errorf("%.80s is answered with %s, %v", x.line, got, err)
		}
	}
	go func() {
		io.WriteString(client, `[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":2,"method":"b"}]`)
		client.Close()
	}()
	for _, want := range []string{"a", "b"} {
		m, err := s.Read(context.Background())
		if q, ok := m.(*jsonrpc.Request); err != nil || !ok || q.Method != want {
			t.Fatalf("%v is read, %v", m, err)
		}
	}
	if _, err := s.Read(context.Background()); err != io.EOF {
		t.Errorf("after its end: %v", err)
	}
}

func TestARequestWithTheIDNullIsRefused(t *testing.T) {
	_, bad := decode([]byte(`{"jsonrpc":"2.0","id":null,"method":"ping"}`))
	if bad == nil || bad.response || !strings.Contains(string(bad.answer()), `"id":null`) {
		t.Errorf("it is answered with %v", bad)
	}
	m, bad := decode([]byte(`{"jsonrpc":"2.0","id":null,"method":"notifications/initialized"}`))
	if bad != nil || m[0].(*jsonrpc.Request).ID.IsValid() {
		t.Errorf("a notification with the id null is read as %v, %v", m, bad)
	}
}

func TestADeeplyNestedRequestIsRefusedAsSuch(t *testing.T) {
	for levels, want := range map[int]string{900: "", 1100: "1102 levels", 20000: "20002 levels"} {
		_, bad := decode([]byte(`{"jsonrpc":"2.0","method":"ping","params":{"a":` + strings.Repeat("[", levels) +
			strings.Repeat("]", levels) + `},"id":7}`))
		switch {
		case want == "" && bad != nil, want != "" && (bad == nil || !strings.Contains(bad.text, want)):
			t.Errorf("%d lists lead to %v", levels, bad)
		case bad != nil && (bad.code != jsonrpc.CodeInvalidRequest || string(bad.id) != "7" || bad.response):
			t.Errorf("%d lists lead to the error %d of %s", levels, bad.code, bad.id)
		}
	}
}

func TestTheIDOfALargeMessageIsFoundWhereverItStands(t *testing.T) {
	long := strings.Repeat("x", maxShort+1)
	for raw, want := range map[string]string{
		`{"jsonrpc": "2.0", "id": 7, "result": {"id": 8, "method": [{"id": 9}]}}`:  `7 outcome`,
		"{\n\t\"result\" : {\"a\":\"\\\"}\"} , \"id\" : \"a\\\"b\"\n}":             `"a\"b" outcome`,
		`{"` + long + `":1,"result":{},"id":7}`:                                    ``,
		`{"a":"` + long + `","result":{},"id":7}`:                                  `7 outcome`,
		`{"a":"\\","error":{},"id":-7,"jsonrpc":"2.0"}`:                            `-7 outcome`,
		`{"id":"` + long + `","result":{}}`:                                        ` outcome`,
		`{"id":7,"result":{"a":["` + long:                                          `7 outcome`,
		`{"params":{"id":8},"method":"roots/list","id":7}`:                         `7 method`,
		`{"id":7,"result":{},"Id":8}`:                                              `7 outcome 8 outcome`,
		`[{"id":7,"result":{"id":9}}, {"id":8,"params":[[{}]],"method":"ping"}]`:   `7 outcome 8 method`,
		`{"id":7,` + strings.Repeat(`"a":1,`, maxOutline/6) + `"b":2,"result":{}}`: ``,
		`{'id': 7, 'result': {}}`:                                                  ``, long: ``,
	} {
		var got []string
		_, bad := decodeLine(nil, outlineOf([]byte(raw)), 1)
		for _, b := range bad {
			switch got = append(got, string(b.id)); {
			case !b.response:
				got = append(got, "method")
			case b.outcome:
				got = append(got, "outcome")
			}
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%.80s is refused as %q, not %q", raw, s, want)
		}
	}
}

// FuzzOutline compares the outline of a short JSON object with the object. Both must have the same outermost members.
func FuzzOutline(f *testing.F) {
	f.Add([]byte(`{"jsonrpc": "2.0", "id": 7, "result": {"id": [8, "}\"", {"method": null}]}}`))
	f.Add([]byte(` {"a\\\"":"\\","error":[{}],"id":"x\u0022","ID":1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) || len(raw) > maxShort {
			return
		}
		want, got := readOutermost(raw), readOutermost(outlineOf(raw).text)
		if got.object != want.object || got.response != want.response || got.outcome != want.outcome ||
			len(got.ids) != len(want.ids) {
			t.Fatalf("%s is read as %+v, and its outline %s as %+v", raw, want, outlineOf(raw).text, got)
		}
		if id := want.id(); string(got.id()) != string(id) {
			t.Fatalf("the id of %s is %s, and that of its outline %s", raw, id, got.id())
		}
	})
}
