package retain

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/inquiry"
	"lazaret/internal/natstest"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
)

// replica is an auditor's key and its log of the same ledger.
type replica struct {
	id      string
	public  string
	private string
	log     *chain.Log
	dir     string
}

var replicaKey = make([]byte, 32)

func newReplica(t *testing.T, name string, trust *keys.Trust, entries int) *replica {
	t.Helper()
	r := &replica{dir: filepath.Join(t.TempDir(), "audit")}
	var err error
	if r.private, r.public, err = keys.Generate(name); err != nil {
		t.Fatal(err)
	}
	if err := trust.Add(keys.Pin{Key: r.public, Roles: []keys.Role{keys.RoleAuditor}}); err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(r.private)
	if err != nil {
		t.Fatal(err)
	}
	r.id = chain.KeyID(signer.Name(), signer.KeyHash())
	if r.log, err = chain.Open(r.dir, chain.Options{Signer: signer, MasterKey: replicaKey}); err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		if err := r.log.Append([]chain.Entry{{Seq: uint64(i) + 1, Time: time.Unix(int64(i), 0), Type: "memory",
			Project: "p", Payload: fmt.Appendf(nil, "x 0 0\n%d", i)}}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r *replica) checkpoint(t *testing.T) []byte {
	t.Helper()
	cp, err := r.log.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	return cp
}

func TestPromiseB17AuditorsAreIdentifiedByKeyAndEachIsWaitedFor(t *testing.T) {
	srv := natstest.Start(t)
	js, err := jetstream.New(srv.Connect())
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	trust := new(keys.Trust)
	ahead, behind := newReplica(t, "auditor", trust, 100), newReplica(t, "auditor", trust, 32)
	silent := newReplica(t, "auditor", trust, 0)
	say := func(cp []byte) {
		t.Helper()
		if _, err := js.Publish(ctx, checkpointSubject, cp); err != nil {
			t.Fatal(err)
		}
	}
	say(behind.checkpoint(t))
	cp := ahead.checkpoint(t)
	// Add the signature line of another auditor's checkpoint. Its signature is of another tree, so it must not count.
	lines := strings.SplitAfter(string(behind.checkpoint(t)), "\n")
	say([]byte(string(cp) + lines[len(lines)-2]))
	say(cp)
	if err := ahead.log.Close(); err != nil {
		t.Fatal(err)
	}
	c := &Config{Conn: srv.Connect(), Trust: trust, Log: func(ctx context.Context, ask func(*inquiry.Log) error) error {
		l, err := inquiry.Open(ctx, ahead.dir, inquiry.Options{MasterKey: replicaKey,
			Verifiers: trust.Verifiers(keys.RoleAuditor)})
		if err != nil {
			return err
		}
		defer l.Close()
		return ask(l)
	}}
	want := func(what string, want map[string]uint64) {
		t.Helper()
		got, err := c.chained(ctx, js)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, %v, want %v", what, got, err, want)
		}
	}
	want("three replicas of one name", map[string]uint64{ahead.id: 100, behind.id: 32, silent.id: 0})

	// If an auditor hands its key over to another registered key, the old key is no longer waited for. If it hands the
	// key over to an unregistered key, the old key is still waited for.
	stranger := new(keys.Trust)
	for _, to := range []*keys.Trust{stranger, trust} {
		next := newReplica(t, "auditor", to, 0)
		signer, err := note.NewSigner(next.private)
		if err != nil {
			t.Fatal(err)
		}
		h, err := silent.log.Handover(signer, next.public)
		if err != nil {
			t.Fatal(err)
		}
		say(h)
		if to == stranger {
			want("handed over to a stranger", map[string]uint64{ahead.id: 100, behind.id: 32, silent.id: 0})
			// The unregistered key signs now; start again with the registered one.
			if err := silent.log.Close(); err != nil {
				t.Fatal(err)
			}
			old, err := note.NewSigner(silent.private)
			if err != nil {
				t.Fatal(err)
			}
			if silent.log, err = chain.Open(filepath.Join(t.TempDir(), "audit"),
				chain.Options{Signer: old, MasterKey: replicaKey}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want("handed over to a registered key", map[string]uint64{ahead.id: 100, behind.id: 32, next.id: 0})
	}
}
