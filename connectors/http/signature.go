package http

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

var (
	errSignature = errors.New("the signature is missing or is another one")
	errTime      = errors.New("the time of the signature is too far from this machine's clock")
)

// verify reports a request that does not show that it comes from who has the secret.
func (p *Path) verify(h http.Header, body []byte, now time.Time) error {
	switch p.Signature {
	case Unsigned:
		return nil
	case Bearer:
		token, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
		if !ok || subtle.ConstantTimeCompare([]byte(token), []byte(p.Secret)) != 1 {
			return errSignature
		}
		return nil
	case GitHub:
		return p.signed(h.Get("X-Hub-Signature-256"), body)
	case Stripe:
		return p.stripe(h.Get("Stripe-Signature"), body, now)
	case Standard:
		return p.standard(h, body, now)
	}
	return p.signed(h.Get(p.Header), body)
}

func sum(key []byte, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range parts {
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// signed checks a signature in hexadecimal or base64, alone or behind "sha256=".
func (p *Path) signed(text string, body []byte) error {
	text = strings.TrimPrefix(text, "sha256=")
	given, err := hex.DecodeString(text)
	if err != nil {
		if given, err = base64.StdEncoding.DecodeString(text); err != nil {
			return errSignature
		}
	}
	if !hmac.Equal(given, sum([]byte(p.Secret), body)) {
		return errSignature
	}
	return nil
}

// near checks a time in seconds since 1970.
func (p *Path) near(text string, now time.Time) error {
	at, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return errSignature
	}
	if d := now.Sub(time.Unix(at, 0)); d > p.Tolerance || d < -p.Tolerance {
		return errTime
	}
	return nil
}

// stripe checks t=1769776496,v1=HEX,v1=HEX: of the time, a dot and the body. While a secret is changed there are several.
func (p *Path) stripe(text string, body []byte, now time.Time) error {
	var at string
	var given []string
	for part := range strings.SplitSeq(text, ",") {
		switch name, value, _ := strings.Cut(strings.TrimSpace(part), "="); name {
		case "t":
			at = value
		case "v1":
			given = append(given, value)
		}
	}
	want := sum([]byte(p.Secret), []byte(at), []byte{'.'}, body)
	for _, g := range given {
		if b, err := hex.DecodeString(g); err == nil && hmac.Equal(b, want) {
			return p.near(at, now)
		}
	}
	return errSignature
}

// standard checks webhook-signature, a list of v1,BASE64 with spaces between them: of the id, the time and the body.
func (p *Path) standard(h http.Header, body []byte, now time.Time) error {
	at := h.Get("Webhook-Timestamp")
	want := sum(key(p.Secret), []byte(h.Get("Webhook-Id")+"."+at+"."), body)
	for one := range strings.FieldsSeq(h.Get("Webhook-Signature")) {
		text, ok := strings.CutPrefix(one, "v1,")
		if b, err := base64.StdEncoding.DecodeString(text); ok && err == nil && hmac.Equal(b, want) {
			return p.near(at, now)
		}
	}
	return errSignature
}
