package probe

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/datafolder"
	"lazaret/internal/embedded"
	"lazaret/internal/natsserver"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

// The people in scenarios. Alice's key is pinned as an approver's. Mallory's is not pinned.
const (
	alice   = "alice"
	mallory = "mallory"
)

// site is a pipeline for scenarios: a new one in a temporary folder, or an existing one.
type site struct {
	data     string
	signers  map[string]note.Signer
	operator note.Signer // the operator of a new pipeline; nil for an existing one
	tag      string      // suffix of project names
	settings settings

	// Used only by the goroutine that starts, restarts and closes the site.
	pipe   *embedded.Pipeline
	url    string
	dirs   []string
	op     *nats.Conn
	person *nats.Conn
	ledger *ledger
}

// settings are the settings with which a pipeline is started.
type settings struct {
	policy []byte
	rules  []byte
	trust  map[string]string
	erase  bool
}

func isProbe(project string) bool { return strings.HasPrefix(project, projectPrefix) }

// projectPrefix is the prefix of the probes' project names.
const projectPrefix = streams.SyntheticPrefix + "probe-"

// newSite starts a new pipeline.
func newSite(ctx context.Context, set settings) (_ *site, err error) {
	s := &site{settings: set, signers: make(map[string]note.Signer)}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	pins := map[string]string{alice: string(keys.RoleApprover)}
	maps.Copy(pins, set.trust)
	public := make(map[string]string)
	for _, who := range []string{alice, mallory} {
		var private string
		if private, public[who], err = keys.Generate(who); err != nil {
			return nil, err
		}
		if s.signers[who], err = note.NewSigner(private); err != nil {
			return nil, err
		}
	}
	if err := s.folder(pins, public); err != nil {
		return nil, err
	}
	return s, s.start(ctx)
}

// folder creates a data folder whose trust file has the pins.
func (s *site) folder(pins, public map[string]string) error {
	dir, err := os.MkdirTemp("", "lazaret-probe-")
	if err != nil {
		return err
	}
	s.dirs, s.data = append(s.dirs, dir), dir
	trust, err := datafolder.Trust(dir)
	if err != nil {
		return err
	}
	for _, who := range []string{alice, mallory} {
		if role := pins[who]; role != "" {
			if err := trust.Add(keys.Pin{Key: public[who], Roles: []keys.Role{keys.Role(role)}}); err != nil {
				return err
			}
		}
	}
	if s.operator, err = keys.LoadSigner(datafolder.OperatorKey(dir)); err != nil {
		return err
	}
	return trust.Write(datafolder.TrustFile(dir))
}

func (s *site) start(ctx context.Context) (err error) {
	// The folder is temporary, so nothing has to survive a crash.
	cfg := embedded.Config{Data: s.data, Listen: "127.0.0.1:0", NoSync: true, Policy: s.settings.policy,
		Rules: s.settings.rules}
	if s.pipe, err = embedded.Start(ctx, cfg); err != nil {
		return err
	}
	s.url = s.pipe.Server.URL()
	if s.op, err = s.pipe.Server.Connect(natsserver.RoleOperator); err != nil {
		return err
	}
	if s.person, err = s.pipe.Server.Connect(natsserver.RoleApprover); err != nil {
		return err
	}
	s.ledger, err = follow(ctx, s.op, 0, isProbe)
	return err
}

// restart stops the pipeline and starts it again, with an empty folder if the contrast says so.
func (s *site) restart(ctx context.Context) error {
	if err := s.halt(); err != nil {
		return err
	}
	if s.settings.erase {
		if err := s.folder(nil, nil); err != nil {
			return err
		}
	}
	return s.start(ctx)
}

func (s *site) halt() (err error) {
	if s.ledger != nil {
		s.ledger.stop()
	}
	for _, nc := range []*nats.Conn{s.op, s.person} {
		if nc != nil {
			nc.Close()
		}
	}
	if s.pipe != nil {
		err = s.pipe.Close()
	}
	s.ledger, s.op, s.person, s.pipe = nil, nil, nil, nil
	return err
}

func (s *site) close() error {
	err := s.halt()
	for _, d := range s.dirs {
		os.RemoveAll(d)
	}
	return err
}

// agent connects with a credential for this agent only.
func (s *site) agent(project, name string, origins []beliefs.Origin) (*nats.Conn, error) {
	m, err := natsserver.OpenMinter(s.data)
	if err != nil {
		return nil, err
	}
	creds, err := m.Agent(natsserver.Agent{Project: project, Name: name, Origins: origins})
	if err != nil {
		return nil, err
	}
	return s.connect(creds, project+"/"+name, natsserver.AgentInbox(project, name))
}

func (s *site) connect(creds []byte, name, inbox string) (*nats.Conn, error) {
	nc, err := nats.Connect(s.url, nats.Name("lazaret probe "+name), nats.UserCredentialBytes(creds),
		nats.CustomInboxPrefix(inbox), nats.Timeout(5*time.Second),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		return nil, fmt.Errorf("connecting as %s: %w", name, err)
	}
	return nc, nil
}
