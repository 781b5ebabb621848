package passkey

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"

	"lazaret/pkg/keys"
)

func init() { keys.Passkeys(Verify) }

// Algorithms are the COSE algorithms of the keys that are supported. The preferred ones come first.
var Algorithms = []webauthncose.COSEAlgorithmIdentifier{webauthncose.AlgES256, webauthncose.AlgEdDSA}

// Verify returns an error if an assertion is not a signature of the challenge by the passkey.
func Verify(p *keys.Passkey, challenge string, a *keys.Assertion) error {
	id := base64.RawURLEncoding.EncodeToString(p.Credential)
	car := protocol.CredentialAssertionResponse{
		PublicKeyCredential: protocol.PublicKeyCredential{Credential: protocol.Credential{ID: id,
			Type: string(protocol.PublicKeyCredentialType)}, RawID: protocol.URLEncodedBase64(p.Credential)},
		AssertionResponse: protocol.AuthenticatorAssertionResponse{
			AuthenticatorResponse: protocol.AuthenticatorResponse{ClientDataJSON: protocol.URLEncodedBase64(a.ClientData)},
			AuthenticatorData:     protocol.URLEncodedBase64(a.AuthData), Signature: protocol.URLEncodedBase64(a.Signature)},
	}
	parsed, err := car.Parse()
	if err != nil {
		return explained(err)
	}
	// The library accepts several spellings of a web origin. Browsers use only one of them, so no other is accepted.
	if o := parsed.Response.CollectedClientData.Origin; !slices.Contains(p.Origins, o) {
		return fmt.Errorf("origin %q is not one of the pinned %q", o, p.Origins)
	}
	return explained(parsed.Verify(challenge, p.RP, "", p.Origins, nil, nil, protocol.TopOriginExplicitVerificationMode,
		false, true, true, p.Public, protocol.SignaturePolicy{}))
}

// Register verifies a registration and returns the passkey to pin. response is the JSON result of
// navigator.credentials.create. challenge is the one that was given to the page.
func Register(response []byte, challenge, rp, origin string) (*keys.Passkey, error) {
	parsed, err := protocol.ParseCredentialCreationResponseBytes(response)
	if err != nil {
		return nil, explained(err)
	}
	var params []protocol.CredentialParameter
	for _, a := range Algorithms {
		params = append(params, protocol.CredentialParameter{Type: protocol.PublicKeyCredentialType, Algorithm: a})
	}
	_, err = parsed.Verify(challenge, rp, []string{origin}, nil, nil, protocol.TopOriginExplicitVerificationMode, false,
		true, true, nil, params, protocol.AttestationPolicy{}, protocol.SignaturePolicy{})
	if err != nil {
		return nil, explained(err)
	}
	data := parsed.Response.AttestationObject.AuthData.AttData
	if !bytes.Equal(data.CredentialID, parsed.RawID) {
		return nil, errors.New("the browser sent the id of another passkey than the one it made: register the passkey again")
	}
	return &keys.Passkey{Credential: data.CredentialID, Origins: []string{origin}, Public: data.CredentialPublicKey,
		RP: rp}, nil
}

// explained adds to an error the details that the library has in separate fields of its errors.
func explained(err error) error {
	var e *protocol.Error
	if errors.As(err, &e) && e.DevInfo != "" {
		return fmt.Errorf("%s: %s", e.Details, e.DevInfo)
	}
	if errors.As(err, &e) {
		return errors.New(e.Details)
	}
	return err
}
