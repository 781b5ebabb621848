package audit

import (
	"fmt"

	"golang.org/x/mod/sumdb/note"

	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
)

// signingKey is a private key of an auditor in a file.
type signingKey struct {
	file     string
	public   string
	signer   note.Signer
	verifier note.Verifier
}

func readKey(file string) (*signingKey, error) {
	private, err := keys.LoadPrivate(file)
	if err != nil {
		return nil, err
	}
	k := &signingKey{file: file}
	if k.public, err = keys.Public(private); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if k.signer, err = note.NewSigner(private); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	k.verifier, err = note.NewVerifier(k.public)
	return k, err
}

// makeKey makes a key in a new file.
func makeKey(name, file string) (*signingKey, error) {
	private, _, err := keys.Generate(name)
	if err == nil {
		err = keys.WritePrivate(file, private)
	}
	if err != nil {
		return nil, err
	}
	return readKey(file)
}

func (k *signingKey) String() string { return chain.KeyID(k.signer.Name(), k.signer.KeyHash()) }

// rotation is a handover of a log from one key to the next.
type rotation struct {
	log       *chain.Log
	trust     *keys.Trust
	trustFile string
	old, next *signingKey // next is nil if it is still to be made
}

// check returns an error if a handover from the old key to the next one would not be valid. stored means that the log
// has this handover already, because an earlier run was interrupted after it, or because the files of both keys were
// put back.
func (r *rotation) check() (stored bool, err error) {
	inForce, err := r.log.Successor()
	if err != nil {
		return false, err
	}
	if r.next != nil {
		if err := r.checkNext(); err != nil {
			return false, err
		}
		if r.next.public == inForce {
			return true, nil
		}
	}
	if err := r.checkOld(inForce); err != nil {
		return false, err
	}
	if r.next == nil {
		return false, nil
	}
	if r.next.public == r.old.public {
		return false, fmt.Errorf("the new key in %s must differ from the old one, but it is the key in %s, %s: remove "+
			"%[1]s, and the command makes a new key", r.next.file,
			r.old.file, r.old)
	}
	if name := r.old.signer.Name(); r.next.signer.Name() != name {
		return false, fmt.Errorf("the key in %s is %s, but the log's key has the name %q: move the file away, and make a "+
			"key of this name: lazaret key gen %[3]q %[1]s --pin auditor", r.next.file, r.next, name)
	}
	return false, nil
}

// checkNext returns an error if the next key may not sign checkpoints.
func (r *rotation) checkNext() error {
	at, replaced, err := r.replacedAt(r.next)
	if err != nil {
		return err
	}
	if replaced {
		return fmt.Errorf("the key in %s, %s, was replaced when the log had %d leaves, so it cannot sign later ones: move "+
			"the file away, and the command makes a new key", r.next.file, r.next, at)
	}
	if p, ok := r.trust.Find(r.next.signer.Name(), r.next.signer.KeyHash()); ok && !p.Has(keys.RoleAuditor) {
		return fmt.Errorf("the key in %s, %s, is pinned in %s for %v and not for %s: move the file away, and the command "+
			"makes a new key", r.next.file, r.next, r.trustFile, p.Roles, keys.RoleAuditor)
	}
	return nil
}

// checkOld returns an error if verifiers would not accept a new handover that the old key signs. inForce is the key
// that the last handover named, or "".
func (r *rotation) checkOld(inForce string) error {
	if inForce != "" && inForce != r.old.public {
		return fmt.Errorf("the key in %s, %s, is not the key to which the log was handed over: put the private key of %s "+
			"into this file, and run the command again", r.old.file, r.old, inForce)
	}
	p, ok := r.trust.Find(r.old.signer.Name(), r.old.signer.KeyHash())
	if !ok || !p.Has(keys.RoleAuditor) {
		return fmt.Errorf("the key in %s, %s, is not pinned in %s with the role %s, so verifiers would refuse a handover "+
			"that it signs: put the log's own key into this file, or pin the key that is in it", r.old.file, r.old,
			r.trustFile, keys.RoleAuditor)
	}
	at, replaced, err := r.replacedAt(r.old)
	if err != nil || !replaced {
		return err
	}
	if size := r.log.Head().Size; r.next != nil && size <= at {
		return nil // a restored log, which lost the handover of this key
	}
	return fmt.Errorf("the key in %s, %s, was replaced when the log had %d leaves, so it cannot hand over the log, which "+
		"has %d: put the private key that replaced it into this file, and run the command again", r.old.file, r.old, at,
		r.log.Head().Size)
}

// replacedAt returns the number of leaves at which a key was replaced. It reads the number from the key's pin, or else
// from the handover in the log.
func (r *rotation) replacedAt(k *signingKey) (leaves int64, ok bool, err error) {
	if p, pinned := r.trust.Find(k.signer.Name(), k.signer.KeyHash()); pinned && p.ReplacedAt != nil {
		return *p.ReplacedAt, true, nil
	}
	handovers, err := r.log.Handovers()
	if err != nil {
		return 0, false, err
	}
	for _, h := range handovers {
		if _, _, err := chain.Replaced(h, note.VerifierList(k.verifier)); err != nil {
			continue // it did not sign this handover as the replaced key
		}
		cp, err := chain.ParseCheckpoint(h)
		return cp.Size, true, err
	}
	return 0, false, nil
}
