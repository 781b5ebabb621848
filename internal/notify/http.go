package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"lazaret/pkg/text"
)

// receiver delivers messages to one destination.
type receiver interface {
	// prepare checks the settings and reads secrets from their files.
	prepare() error
	// send delivers a message. It returns nil only after the receiver has accepted it.
	send(ctx context.Context, m *Message) error
	// secrets are strings that errors must not contain.
	secrets() []string
}

// refusal is the permanent error of a receiver that will not accept the message.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// later is the error of a receiver that states when to retry.
type later struct {
	error
	after time.Duration
}

func (l later) Unwrap() error { return l.error }

// answer is an error that quotes a receiver. The quote may repeat texts of the notification, which must get neither
// into dead letters nor into the log. So message, which Error returns, does not contain the quote.
type answer struct{ message, quote string }

func (a *answer) Error() string { return a.message }

// maxQuote is the maximum length of a quote, in characters.
const maxQuote = 200

// sendTime is the timeout of one delivery.
const sendTime = 20 * time.Second

// outward is the client of all HTTP receivers. It follows no redirects and connects to no link-local
// address, where clouds serve credentials.
var outward = &http.Client{
	Timeout:       sendTime,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Transport: &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    10 * time.Second,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: 64 << 10,
	},
}

var dialer = &net.Dialer{Timeout: 10 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if ip := a.Addr().Unmap(); ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() {
		return errors.New("the address is link-local, multicast or unspecified, which is not allowed")
	}
	return nil
}}

// checkURL checks the address of a receiver. Errors do not quote it: its path may be a secret.
func checkURL(field, s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return fmt.Errorf("%s: want an address that begins with https:// or http://", field)
	}
	if u.User != nil {
		return fmt.Errorf("%s: the address must not contain a user or password", field)
	}
	return nil
}

// post sends a body and expects a status of 2xx.
func post(ctx context.Context, to string, header http.Header, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return errors.New("the request cannot be created")
	}
	if header != nil {
		req.Header = header
	}
	if req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", "lazaret")
	res, err := outward.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // the URL in the outer error may be secret
		}
		if quotesNothing(err) {
			return fmt.Errorf("%s: %w", req.URL.Host, err)
		}
		return &answer{req.URL.Host + ": the connection broke, or the answer is not valid HTTP",
			text.InertLine(err.Error(), maxQuote)}
	}
	defer res.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(res.Body, 512))
	err = &answer{fmt.Sprintf("%s answered %d", req.URL.Host, res.StatusCode), text.InertLine(string(said), maxQuote)}
	switch {
	case res.StatusCode/100 == 2:
		return nil
	case res.StatusCode/100 == 3:
		return fmt.Errorf("%s answered %d: redirects are not followed, name the final address", req.URL.Host,
			res.StatusCode)
	case res.StatusCode == http.StatusBadRequest,
		res.StatusCode == http.StatusRequestEntityTooLarge,
		res.StatusCode == http.StatusUnprocessableEntity:
		return refusal{err}
	}
	if s, aerr := strconv.Atoi(res.Header.Get("Retry-After")); aerr == nil && s > 0 {
		return later{err, min(time.Duration(s)*time.Second, maxPause)}
	}
	return err
}

// quotesNothing reports whether an error of an HTTP client quotes nothing that the server sent. Errors about a
// malformed answer quote the answer.
func quotesNothing(err error) bool {
	var timeout net.Error
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, http.ErrSchemeMismatch),
		errors.Is(err, context.Canceled), errors.As(err, &timeout) && timeout.Timeout(),
		errors.As(err, new(*net.OpError)), errors.As(err, new(*net.DNSError)),
		errors.As(err, new(*tls.CertificateVerificationError)), errors.As(err, new(tls.RecordHeaderError)):
		return true
	}
	return false
}
