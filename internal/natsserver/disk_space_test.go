package natsserver_test

import (
	"strings"
	"testing"
	"time"

	"lazaret/internal/natsserver"
	"lazaret/internal/natstest"
	"lazaret/internal/wire"
	"lazaret/streams"
)

func TestPromiseC23StreamsAreSizedToTheDiskAndToTheFlag(t *testing.T) {
	dir := t.TempDir()
	free, all, err := natsserver.Free(dir)
	if err != nil {
		t.Fatal(err)
	}
	sum := func(s wire.Storage) int64 { return s.LedgerBytes + s.IntakeBytes + s.LiveBytes }
	byDisk, err := natsserver.Size(wire.Storage{}, dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	if byDisk.LedgerBytes <= 0 || sum(byDisk) > free-natsserver.Reserve(all) {
		t.Errorf("of %d free bytes the streams take %+v", free, byDisk)
	}
	const most = 256 << 20
	byFlag, err := natsserver.Size(wire.Storage{}, dir, most)
	if err != nil {
		t.Fatal(err)
	}
	if byFlag.LedgerBytes <= 0 || byFlag.IntakeBytes <= 0 || byFlag.LiveBytes <= 0 || sum(byFlag) > most {
		t.Errorf("of %d bytes the streams take %+v", most, byFlag)
	}
	own, err := natsserver.Size(wire.Storage{LedgerBytes: 7}, dir, most)
	if err != nil || own.LedgerBytes != 7 || own.IntakeBytes != byFlag.IntakeBytes {
		t.Errorf("with a ledger size of its own: %+v, %v", own, err)
	}
	if _, err := natsserver.Size(wire.Storage{}, dir, 10<<20); err == nil || !strings.Contains(err.Error(), "--max-disk") {
		t.Errorf("for 10 MiB: %v", err)
	}
}

// After Admit(false), the streams must refuse messages. That must not change after a backup, nor after a change in the
// register of credentials.
func TestPromiseC23AClosedServerStaysClosed(t *testing.T) {
	data := t.TempDir()
	s := startServer(t, data)
	js, done := roleStreams(t, s, natsserver.RoleIngest)
	defer done()
	takes := func() bool {
		_, err := js.Publish(t.Context(), streams.LedgerSubject(0, streams.StageIngest), []byte("x"))
		if err != nil && !strings.Contains(err.Error(), "exceeded") {
			t.Fatal(err)
		}
		return err == nil
	}
	if !takes() {
		t.Fatal("the streams take nothing at first")
	}
	if err := s.Admit(false); err != nil {
		t.Fatal(err)
	}
	if takes() {
		t.Fatal("a closed server takes messages")
	}
	install(t, s.Minter(), bot("b", time.Hour))
	old := read(t, natsserver.CredsFile(data, "acme.b"))
	if r, err := s.Minter().Revoke("acme.b", false); r.Credentials != 1 || err != nil {
		t.Fatal(r, err)
	}
	natstest.Eventually(t, 10*time.Second, "refusal of the revoked one", func() bool { return !accepts(t, s.URL(), old) })
	if takes() {
		t.Error("after a change of the register the server takes messages")
	}
	if err, down := s.WhileStopped(func() error { return nil }); err != nil || down != nil {
		t.Fatal(err, down)
	}
	if takes() {
		t.Error("after a stop and start the server takes messages")
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if !takes() {
		t.Error("after Restart the server takes no messages")
	}
}
