package ingest

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

func TestAnActionThatCarriesAMarkedMemorySaysSo(t *testing.T) {
	h := intentOf{newHouse(t, offline(t)), "s1"}
	h.observe(beliefs.OriginUser, "u1", "", "Send Bob the combination of the archive room.")
	long := strings.Repeat("nothing of note ", maxMarkedText/10)
	n := 0
	marked := func(body string) bool {
		t.Helper()
		n++
		e := h.act(fmt.Sprint("a", n), "send_email", fmt.Sprintf(`{"to":"bob@example.org","body":%q}`, body))
		if e.Shown == nil {
			t.Fatal("the user is not heard")
		}
		return e.Shown.Marked
	}
	h.remember(beliefs.OriginUser, mem("m0", "I drink coffee with milk before noon."))
	if marked("coffee with milk") || marked(long) {
		t.Error("nothing is marked yet")
	}
	for i, content := range []string{"The combination of the archive room is amber falcon nine.", "PIN 4711",
		"swordfish"} {
		h.remember(beliefs.OriginUser, &streams.Memory{Head: streams.Head{ID: fmt.Sprint("m", i+1)}, Content: content,
			Sensitivity: beliefs.Confidential + beliefs.Sensitivity(i%2)})
	}
	for _, body := range []string{"It is AMBER falcon-nine!", "4711", "use swordfish", long,
		base64.StdEncoding.EncodeToString([]byte("it is amber falcon nine, as you know")),
		"see " + base64.StdEncoding.EncodeToString([]byte("PIN 4711")), "NDcxMQ==", "door/NDcxMQ", "door_34373131",
		"c3dvcmRmaXNo", hex.EncodeToString([]byte("4711")),
		base64.StdEncoding.EncodeToString([]byte("amber")) + " " + hex.EncodeToString([]byte("falcon"))} {
		if !marked(body) {
			t.Errorf("%.60q is not marked", body)
		}
	}
	for _, body := range []string{"coffee with milk", "the falcon flew over the room", "4712",
		base64.StdEncoding.EncodeToString([]byte("4712")), "door/attic/hall/test/word"} {
		if marked(body) {
			t.Errorf("%q is marked", body)
		}
	}
}
