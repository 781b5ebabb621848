package mcpproxy

import (
	"context"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"lazaret/internal/mcpwire"
)

func TestLargeAnswersOfAllProxiesShareABound(t *testing.T) {
	id, err := jsonrpc.MakeID("1")
	if err != nil {
		t.Fatal(err)
	}
	m := &jsonrpc.Response{ID: id, Result: make([]byte, mcpwire.MaxMessage*2/3)}
	proxy := func() (*Proxy, *call) {
		c := new(call)
		return &Proxy{calls: map[jsonrpc.ID]*call{id: c}}, c
	}
	one, first := proxy()
	two, second := proxy()
	if !one.enter(t.Context(), first, m) || one.enter(t.Context(), first, m) {
		t.Error("an answer does not come in once")
	}
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if two.enter(short, second, m) {
		t.Error("two answers are handled at once that are larger than the bound")
	}
	if small := (&jsonrpc.Response{ID: id, Result: make([]byte, largeAnswer/2)}); !two.enter(t.Context(), second, small) {
		t.Error("a small answer waits for a large one")
	}
	one.leave(first)
	one.leave(first)
	if !two.enter(t.Context(), second, m) {
		t.Error("an answer finds no room after the one before it")
	}
	two.leave(second)
	if !large.TryAcquire(largeBound) {
		t.Error("room was not given back")
	}
	large.Release(largeBound)
}
