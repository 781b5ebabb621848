package natsserver_test

import (
	"strings"
	"testing"

	"lazaret/internal/natsserver"
	"lazaret/internal/wire"
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
		t.Errorf("%+v, %v", own, err)
	}
	if _, err := natsserver.Size(wire.Storage{}, dir, 10<<20); err == nil || !strings.Contains(err.Error(), "--max-disk") {
		t.Errorf("for 10 MiB: %v", err)
	}
}
