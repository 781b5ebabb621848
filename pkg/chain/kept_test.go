package chain_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/mod/sumdb/note"

	"lazaret/pkg/chain"
)

// keptLog makes a log with checkpoints of the sizes 10, 20, 30, 40 and 50. The checkpoint of size 20 has a cosignature.
func keptLog(t *testing.T, k keypair) (f files, cps [][]byte) {
	t.Helper()
	fs := vfs.NewMem()
	l := open(t, fs, "log", k)
	for n := uint64(0); n < 50; n += 10 {
		if err := l.Append(entries(n+1, n+10)); err != nil {
			t.Fatal(err)
		}
		cp, err := l.Checkpoint()
		if err != nil {
			t.Fatal(err)
		}
		if n == 10 {
			if err := l.Cosigned(append(bytes.Clone(cp), cosignature...)); err != nil {
				t.Fatal(err)
			}
		}
		cps = append(cps, cp)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return readFiles(t, fs, "log"), cps
}

var cosignature = "— witness " + base64.StdEncoding.EncodeToString(make([]byte, 76)) + "\n"

func checkpointKey(size uint64) []byte { return binary.BigEndian.AppendUint64([]byte{'S'}, size) }

// recount changes the counts and the list of changes so that they fit the remaining checkpoints. An attacker without a
// key can do that.
func recount(db *pebble.DB, drop func(size uint64) bool) error {
	size := len(get(db, []byte{'N'}))
	n, hash, changes := uint64(0), [32]byte{}, [][]byte(nil)
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte("C"), UpperBound: []byte("D")})
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if v := it.Value(); !drop(binary.BigEndian.Uint64(v[1:])) {
			changes = append(changes, bytes.Clone(v))
		}
	}
	if err := it.Close(); err != nil {
		return err
	}
	if err := db.DeleteRange([]byte("C"), []byte("D"), pebble.Sync); err != nil {
		return err
	}
	for i, c := range changes {
		if v := get(db, c[:9]); v != nil { // the value may have been replaced since
			sum := sha256.Sum256(v)
			c = append(c[:9:9], sum[:]...)
		}
		if err := db.Set(binary.BigEndian.AppendUint64([]byte{'C'}, uint64(i)), c, pebble.Sync); err != nil {
			return err
		}
		hash = sha256.Sum256(append(hash[:], c...))
	}
	for s := uint64(0); s <= 50; s++ {
		if get(db, checkpointKey(s)) != nil {
			n++
		}
	}
	v := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, n), 0)
	if size > len(v) {
		v = append(binary.BigEndian.AppendUint64(v, uint64(len(changes))), hash[:]...)
	}
	return db.Set([]byte{'N'}, v, pebble.Sync)
}

// downgrade removes the list of changes, so that the log looks as if an earlier version had written it.
func downgrade(db *pebble.DB) error {
	if err := db.DeleteRange([]byte("C"), []byte("D"), pebble.Sync); err != nil {
		return err
	}
	return db.Set([]byte{'N'}, get(db, []byte{'N'})[:16], pebble.Sync)
}

func TestPromiseB19KeptCheckpointsAndCosignaturesOfOlderOnesAreCovered(t *testing.T) {
	k := newKey(t, "log")
	honest, _ := keptLog(t, k)
	if rep := verify(t, honest.fs(t), "log", k, nil); rep.Status != chain.Verified {
		t.Fatalf("the honest log: %+v", rep)
	}
	none := func(uint64) bool { return false }
	remove := func(size uint64) func(db *pebble.DB) error {
		return func(db *pebble.DB) error {
			if err := db.Delete(checkpointKey(size), pebble.Sync); err != nil {
				return err
			}
			return recount(db, func(s uint64) bool { return s == size })
		}
	}
	strip := func(db *pebble.DB) error {
		v := bytes.TrimSuffix(get(db, checkpointKey(20)), []byte(cosignature))
		if err := db.Set(checkpointKey(20), v, pebble.Sync); err != nil {
			return err
		}
		return recount(db, none)
	}
	for name, do := range map[string]func(db *pebble.DB) error{
		"the first checkpoint removed": remove(10),
		"an older checkpoint removed":  remove(30),
		"a cosignature removed":        strip,
		"a cosignature changed": func(db *pebble.DB) error {
			v := bytes.Replace(get(db, checkpointKey(20)), []byte("AAAA"), []byte("AAAB"), 1)
			if err := db.Set(checkpointKey(20), v, pebble.Sync); err != nil {
				return err
			}
			return recount(db, none)
		},
		"a cosignature added": func(db *pebble.DB) error {
			if err := db.Set(checkpointKey(30), append(get(db, checkpointKey(30)), cosignature...), pebble.Sync); err != nil {
				return err
			}
			return recount(db, none)
		},
		"removed, as if by an earlier version": func(db *pebble.DB) error {
			if err := remove(30)(db); err != nil {
				return err
			}
			return downgrade(db)
		},
		"cosignature removed, as if by an earlier version": func(db *pebble.DB) error {
			if err := strip(db); err != nil {
				return err
			}
			return downgrade(db)
		},
	} {
		t.Run(name, func(t *testing.T) {
			fs := record(t, honest, do).fs(t)
			if rep := verify(t, fs, "log", k, nil); rep.Status != chain.Failed {
				t.Errorf("verification should fail, but the report is %+v", rep)
			}
			// The log must still fail verification after an auditor has added leaves and another checkpoint.
			l := open(t, fs, "log", k)
			if err := l.Append(entries(51, 60)); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Checkpoint(); err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if rep := verify(t, fs, "log", k, nil); rep.Status != chain.Failed {
				t.Errorf("verification should fail after another checkpoint too, but the report is %+v", rep)
			}
		})
	}
}

// A checkpoint gets cosignatures after a later one was signed, and the signing key is handed over. Verification must
// accept the log.
func TestPromiseB19LateCosignaturesAndHandoversAreCovered(t *testing.T) {
	k := newKey(t, "log")
	f, cps := keptLog(t, k)
	fs := f.fs(t)
	l := open(t, fs, "log", k)
	if err := l.Cosigned(append(bytes.Clone(cps[2]), cosignature...)); err != nil {
		t.Fatal(err)
	}
	sk, vk, err := note.GenerateKey(nil, "log")
	if err != nil {
		t.Fatal(err)
	}
	next, err := note.NewSigner(sk)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Handover(next, vk); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(entries(51, 60)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if rep := verify(t, fs, "log", k, cps[3]); rep.Status != chain.Verified || rep.Handovers != 1 {
		t.Fatalf("%+v", rep)
	}
	cut := record(t, readFiles(t, fs, "log"), func(db *pebble.DB) error {
		v := bytes.TrimSuffix(get(db, checkpointKey(30)), []byte(cosignature))
		if err := db.Set(checkpointKey(30), v, pebble.Sync); err != nil {
			return err
		}
		return recount(db, func(uint64) bool { return false })
	})
	if rep := verify(t, cut.fs(t), "log", k, nil); rep.Status != chain.Failed {
		t.Errorf("without the late cosignature: %+v", rep)
	}
}

// earlierVersion returns the files of a log as an earlier version wrote it. Its checkpoints commit only to leaves, not
// to changes of records.
func earlierVersion(t *testing.T, k keypair) files {
	t.Helper()
	f, cps := keptLog(t, k)
	var last []byte
	f = record(t, f, func(db *pebble.DB) error {
		for _, cp := range cps {
			c, err := chain.ParseCheckpoint(cp)
			if err != nil {
				return err
			}
			text := fmt.Sprintf("%s\n%d\n%s\n", c.Origin, c.Size, base64.StdEncoding.EncodeToString(c.Root[:]))
			if last, err = note.Sign(&note.Note{Text: text}, k.signer); err != nil {
				return err
			}
			if err := db.Set(checkpointKey(uint64(c.Size)), last, pebble.Sync); err != nil {
				return err
			}
		}
		return downgrade(db)
	})
	f["log/"+chain.HeadFile] = last
	return f
}

func TestPromiseB19ALogOfAnEarlierVersionIsIncompleteUntilItsNextCheckpoint(t *testing.T) {
	k := newKey(t, "log")
	fs := earlierVersion(t, k).fs(t)
	says := func(rep chain.Report) bool {
		return slices.ContainsFunc(rep.Skipped, func(s string) bool {
			return strings.Contains(s, "cosignatures of older ones")
		})
	}
	if rep := verify(t, fs, "log", k, nil); rep.Status != chain.Incomplete || !says(rep) {
		t.Fatalf("before the auditor opened it: %+v", rep)
	}
	l := open(t, fs, "log", k)
	if _, err := l.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if rep, err := l.Verify(t.Context(), chain.VerifyOptions{Verifiers: k.verifier}); err != nil ||
		rep.Status != chain.Incomplete || !says(rep) {
		t.Fatalf("before it signed another one: %+v, %v", rep, err)
	}
	if err := l.Append(entries(51, 60)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if rep := verify(t, fs, "log", k, nil); rep.Status != chain.Verified {
		t.Fatalf("afterwards: %+v", rep)
	}
	cut := record(t, readFiles(t, fs, "log"), func(db *pebble.DB) error {
		if err := db.Delete(checkpointKey(30), pebble.Sync); err != nil {
			return err
		}
		return recount(db, func(s uint64) bool { return s == 30 })
	})
	if rep := verify(t, cut.fs(t), "log", k, nil); rep.Status != chain.Failed {
		t.Errorf("with a checkpoint of that version removed: %+v", rep)
	}
}

func TestPromiseB19ALogOfAnEarlierVersionThatLostACheckpointStaysConvicted(t *testing.T) {
	k := newKey(t, "log")
	fs := record(t, earlierVersion(t, k), func(db *pebble.DB) error {
		return db.Delete(checkpointKey(30), pebble.Sync)
	}).fs(t)
	l := open(t, fs, "log", k)
	if err := l.Append(entries(51, 60)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if rep := verify(t, fs, "log", k, nil); rep.Status != chain.Failed {
		t.Errorf("%+v", rep)
	}
}

// Someone with the log's own key signs other checkpoints for the same leaves. Verification with an earlier checkpoint
// must report that this checkpoint was signed over other checkpoints than the log has.
func TestPromiseB19AHeldCheckpointTellsWhichOnesWereKept(t *testing.T) {
	k := newKey(t, "log")
	_, cps := keptLog(t, k)
	rep := verify(t, forge(t, &attacked{k: k}, entries(1, 50), 25).fs(t), "log", k, cps[4])
	if rep.Status != chain.Incomplete || !strings.Contains(strings.Join(rep.Skipped, "\n"), "was signed over different ones") {
		t.Errorf("%+v", rep)
	}
}
