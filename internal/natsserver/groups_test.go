package natsserver_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"lazaret/internal/natsserver"
)

func TestGroupsOfOthersAreThoseWithAValidCredential(t *testing.T) {
	data := t.TempDir()
	s := startServer(t, data)
	grant := func(group string, lasts time.Duration) natsserver.Grant {
		r := natsserver.SentinelRole(group)
		return natsserver.Grant{Name: string(r), Role: r, Lasts: lasts}
	}
	install(t, s.Minter(), grant("core", time.Hour))
	install(t, s.Minter(), bot("one", time.Hour))
	install(t, s.Minter(), grant("gone", 1))
	g := natsserver.WatchGroups(data, []string{"core"})
	expect := func(want bool, when string) {
		t.Helper()
		for range 2 { // the second time without reading
			if got := g.Others(); got != want {
				t.Errorf("%s: %t, want %t", when, got, want)
			}
		}
	}
	expect(false, "only this process has a group")
	install(t, s.Minter(), grant("judge", time.Hour))
	expect(true, "a group of somebody else was added")
	if other := natsserver.WatchGroups(data, []string{"core", "judge"}); other.Others() {
		t.Error("Others is true although both groups run in this process")
	}
	if err := os.Remove(filepath.Join(natsserver.KeysDir(data), "credentials.json")); err != nil {
		t.Fatal(err)
	}
	expect(true, "the register is missing")
}
