//! The ID token: a signed set of claims (OpenID Connect Core 1.0 §2, §3.1.3.7; RFC 7519).

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::OpenIdError;
use crate::keys::{KeySet, unencoded};

/// Difference of two clocks that is no fault, s.
const CLOCKS_APART: u64 = 60;
/// Longest subject, bytes (Core §2).
const SUBJECT_BYTES_MAX: usize = 255;

/// The claims that a token must agree with.
pub(crate) struct Expected<'a> {
    pub(crate) issuer: &'a str,
    pub(crate) client: &'a str,
    pub(crate) nonce: &'a str,
    /// Seconds since 1970.
    pub(crate) now: u64,
}

/// The text of a token that is not verified yet.
pub(crate) struct UnprovenToken<'a> {
    /// Header and claims as they were signed.
    signed: &'a str,
    header: Header,
    claims: Vec<u8>,
    signature: Vec<u8>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    /// Extensions that must be understood: there are none here (RFC 7515 §4.1.11).
    crit: Option<Value>,
}

fn refused(reason: impl Into<String>) -> OpenIdError {
    OpenIdError::Token(reason.into())
}

impl<'a> UnprovenToken<'a> {
    /// Takes the text apart.
    ///
    /// # Errors
    /// It is no signed token.
    pub(crate) fn read(text: &'a str) -> Result<Self, OpenIdError> {
        let parts = || {
            let (signed, signature) = text.rsplit_once('.')?;
            let (header, claims) = signed.split_once('.')?;
            let header: Header = serde_json::from_slice(&unencoded(header)?).ok()?;
            Some(Self { signed, header, claims: unencoded(claims)?, signature: unencoded(signature)? })
        };
        parts().ok_or_else(|| refused("it is no signed token of three parts"))
    }

    /// True if one of the keys may have signed it: otherwise they may be old.
    pub(crate) fn has_key_in(&self, keys: &KeySet) -> bool {
        keys.verifies(&self.header.alg, self.header.kid.as_deref(), &[], &[]).is_some()
    }

    /// Its claims, if it is signed by one of the keys and made for this login.
    ///
    /// # Errors
    /// The part that is wrong.
    pub(crate) fn proven(self, keys: &KeySet, expected: &Expected<'_>) -> Result<Map<String, Value>, OpenIdError> {
        let Header { alg, kid, crit } = &self.header;
        if crit.is_some() {
            return Err(refused("its header has extensions (`crit`) that are not known here"));
        }
        match keys.verifies(alg, kid.as_deref(), self.signed.as_bytes(), &self.signature) {
            Some(true) => {}
            Some(false) => return Err(refused(format!("its signature ({alg}) is not of the provider's keys"))),
            None => {
                let named = kid.as_deref().map_or_else(String::new, |kid| format!(" named `{kid}`"));
                return Err(refused(format!("the provider has no key{named} for the algorithm `{alg}`")));
            }
        }
        let claims: Map<String, Value> =
            serde_json::from_slice(&self.claims).map_err(|_| refused("it has no claims"))?;
        checked(&claims, expected)?;
        Ok(claims)
    }
}

/// Compares claims with those that are expected (Core §3.1.3.7).
fn checked(claims: &Map<String, Value>, expected: &Expected<'_>) -> Result<(), OpenIdError> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    if text("iss") != Some(expected.issuer) {
        return Err(refused("it is of another issuer (`iss`)"));
    }
    let audience = match claims.get("aud") {
        Some(Value::String(one)) => vec![one.as_str()],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !audience.contains(&expected.client) {
        return Err(refused("it is for another client (`aud`)"));
    }
    let party = text("azp");
    if party.is_some_and(|party| party != expected.client) || (audience.len() > 1 && party.is_none()) {
        return Err(refused("it is for another client (`azp`)"));
    }
    // A time may have a fraction.
    let seconds = |name: &str| claims.get(name).and_then(Value::as_number).and_then(serde_json::Number::as_f64);
    let now = expected.now as f64;
    let apart = CLOCKS_APART as f64;
    match seconds("exp") {
        Some(end) if end > now - apart => {}
        Some(_) => return Err(refused("it has expired (`exp`): do the clocks of both machines agree?")),
        None => return Err(refused("it never expires (`exp` is missing)")),
    }
    if ["iat", "nbf"].iter().filter_map(|name| seconds(name)).any(|begin| begin > now + apart) {
        return Err(refused("it is of the future (`iat`, `nbf`): do the clocks of both machines agree?"));
    }
    if text("nonce") != Some(expected.nonce) {
        return Err(refused("it is of another login (`nonce`)"));
    }
    match text("sub") {
        Some(subject) if !subject.is_empty() && subject.len() <= SUBJECT_BYTES_MAX => Ok(()),
        _ => Err(refused("it has no subject (`sub`) of 1 to 255 bytes")),
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
    use serde_json::json;

    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn expected() -> Expected<'static> {
        Expected { issuer: "https://id.example", client: "isocast", nonce: "n", now: NOW }
    }

    fn encoded(value: &Value) -> String {
        URL_SAFE_NO_PAD.encode(value.to_string())
    }

    /// A key, and the list with its public half.
    fn key() -> (EcdsaKeyPair, KeySet) {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let made = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, made.as_ref(), &random).expect("the same");
        let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
        let [x, y] = [x, y].map(|half| URL_SAFE_NO_PAD.encode(half));
        let set =
            json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": "1", "use": "sig", "alg": "ES256", "x": x, "y": y}]});
        (pair, KeySet::read(set.to_string().as_bytes()).expect("a list"))
    }

    fn signed(pair: &EcdsaKeyPair, header: &Value, claims: &Value) -> String {
        let text = format!("{}.{}", encoded(header), encoded(claims));
        let signature = pair.sign(&SystemRandom::new(), text.as_bytes()).expect("signed");
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn good() -> Value {
        json!({"iss": "https://id.example", "aud": "isocast", "sub": "7", "exp": NOW + 300, "iat": NOW, "nonce": "n"})
    }

    #[test]
    fn a_token_of_this_login_is_taken_and_each_wrong_claim_is_named() {
        let (pair, keys) = key();
        let header = json!({"alg": "ES256", "kid": "1"});
        let outcome = |change: &[(&str, Value)]| {
            let mut claims = good();
            change.iter().for_each(|(name, value)| claims[*name] = value.clone());
            let text = signed(&pair, &header, &claims);
            let token = UnprovenToken::read(&text).expect("three parts");
            token.proven(&keys, &expected()).map(|claims| claims["sub"].clone()).map_err(|error| error.to_string())
        };
        for fit in [
            vec![],
            vec![("aud", json!(["other", "isocast"])), ("azp", json!("isocast"))],
            vec![("exp", json!(NOW - 59))],
            vec![("iat", json!(NOW as f64 + 59.5))],
        ] {
            assert_eq!(outcome(&fit), Ok(json!("7")), "{fit:?}");
        }
        for (name, value, said) in [
            ("iss", json!("https://id.example/"), "`iss`"),
            ("aud", json!("other"), "`aud`"),
            ("aud", json!(["isocast", "other"]), "`azp`"),
            ("aud", json!(7), "`aud`"),
            ("azp", json!("other"), "`azp`"),
            ("exp", json!(NOW - 61), "has expired"),
            ("exp", Value::Null, "never expires"),
            ("exp", json!("2030"), "never expires"),
            ("iat", json!(NOW + 61), "of the future"),
            ("nbf", json!(NOW + 61), "of the future"),
            ("nonce", json!("m"), "`nonce`"),
            ("nonce", Value::Null, "`nonce`"),
            ("sub", json!(""), "`sub`"),
            ("sub", json!("x".repeat(256)), "`sub`"),
        ] {
            let said_there = outcome(&[(name, value.clone())]).expect_err(name);
            assert!(said_there.contains(said), "{name} = {value}: {said_there}");
        }
    }

    #[test]
    fn a_token_is_signed_by_a_key_for_its_algorithm() {
        let (pair, keys) = key();
        let said = |text: &str, keys: &KeySet| {
            let token = UnprovenToken::read(text);
            token.and_then(|token| token.proven(keys, &expected())).map(drop).map_err(|error| error.to_string())
        };
        let text = signed(&pair, &json!({"alg": "ES256"}), &good());
        assert_eq!(said(&text, &keys), Ok(()), "a key need not be named");
        for (header, reason) in [
            (json!({"alg": "none"}), "no key for the algorithm `none`"),
            (json!({"alg": "HS256", "kid": "1"}), "no key named `1` for the algorithm `HS256`"),
            (json!({"alg": "RS256", "kid": "1"}), "no key named `1` for"),
            (json!({"alg": "ES256", "kid": "2"}), "no key named `2` for"),
            (json!({"alg": "ES256", "crit": ["b64"]}), "`crit`"),
        ] {
            let refusal = said(&signed(&pair, &header, &good()), &keys).expect_err("refused");
            assert!(refusal.contains(reason), "{header}: {refusal}");
        }
        let unsigned = format!("{}.{}.", encoded(&json!({"alg": "none"})), encoded(&good()));
        assert!(said(&unsigned, &keys).is_err_and(|refusal| refusal.contains("no key for the algorithm `none`")));
        let (_, others) = key();
        assert!(said(&text, &others).is_err_and(|refusal| refusal.contains("is not of the provider's keys")));
        let (head, tail) = text.split_at(text.len() - 10);
        for broken in [head.to_owned(), format!("{head}!{tail}"), text.replacen('.', "", 1), String::new()] {
            assert!(said(&broken, &keys).is_err(), "{broken}");
        }
    }

    // Signed by python3-cryptography, with keys that were not kept.
    const SAMPLE_KEYS: &str = r#"{"keys": [{"kty": "RSA", "kid": "r", "n": "xjMfWqRvm0q5jSXDIsTFCxROu7yP7homaKQmDjD_LLKiePF2PuZ4QifBrQAPtbQgR7EGIdr_Nd-indD_JcEtvK5sMPov26M25ur_kzewSg9MpeHclFWLWoNi1QXePUwQgAavEwzk7Z7J4Dv0-lda-MC_rtDa-0Uiu5-EwEXAHvKg9pVFUZCdB33ojtdkXcddLmNQ8CQceZhdBErT83jigGsBULJ9a-rYhUdH4qaCn1zKPivSb2kbNJRdV7IkjfItksxt96hWxskmmUg67ak0DmgPG2OaA7c7BZfXwNxqJyKFvi_iILjXMKLrjWIglS7lhGd37uSgcOcqTkbt5VJrqQ", "e": "AQAB"}, {"kty": "OKP", "crv": "Ed25519", "kid": "e", "x": "oz2G2BhFZzM6T6oUs7PkthXvLaE48R2dr7DUkID8Qf0"}, {"kty": "EC", "crv": "P-384", "kid": "c", "x": "EEJ5GktGFM7wWyjWIIYPHgn_jcW3tM3YjOSBSYxzxwhYQaSOF-DaUVzlAzGXCtV_", "y": "bhNwXVXPFdaMRqAcfIiEIRRMtLU_j50pWkgKMmQpBWyNLL5Nrb26GvKrtx2PLDvp"}]}"#;
    const SAMPLES: [&str; 8] = [
        "eyJhbGciOiAiUlMyNTYiLCAia2lkIjogInIifQ.eyJpc3MiOiAiaHR0cHM6Ly9pZC5leGFtcGxlIiwgImF1ZCI6ICJpc29jYXN0IiwgInN1YiI6ICI3IiwgImV4cCI6IDE4MDAwMDAzMDAsICJub25jZSI6ICJuIn0.CCzhvQKJ1v8Qwq7S6xtE_tnZPW9E93pz8rJti8AT12Pc69lrsu0kV5S2g9OFqBpPI1EWKhCDdg6-2oBP0BtWFCIUdlwGa2u9saxyrzKl-xYWpJbB2zwbQj1PvnPem1HAyHHoMGBMlGPZOj3OCoJh-vnouXVO8AhVEGRHihvRBqsmMN93mE8EO8SkVMnHHHu1xAn1uxFiAFgX-Pzww-Lub7MUC8h1gxpIUM2Tk_uq7eez4biETvrogz7MBq4Y45qY8UMuFoi4v14CR645-U1SkSwMveTKKSb82OaLnhTBlrLApQaPCxg3MbfddAacEqPFgdUJ7Q0Q61p7R6wLOecSCg",
        "eyJhbGciOiAiUlMzODQiLCAia2lkIjogInIifQ.eyJpc3MiOiAiaHR0cHM6Ly9pZC5leGFtcGxlIiwgImF1ZCI6ICJpc29jYXN0IiwgInN1YiI6ICI3IiwgImV4cCI6IDE4MDAwMDAzMDAsICJub25jZSI6ICJuIn0.QNhstZXKavEBluaqiV5aiMEw1HOTB_uWapw7Okra638oLG89Ye7MBkiVo7PTlnFh8MaO6revkiDxJ09UhkWTM3v6Qfz1g7XhsqZdOLt6IAA2utL0bR_gu8W1a_X2pvrEVNNiT5B0MFW_6VijiX32gGFSrz9tfp2LpkWX-4K5FMR_liG3rXqQ8X9W16_eCIrI-wGDLnt6gWqPs-uYcPXz4wPXKCCEuqjg40PcaxlNc1a8vr07W6rEWbPHeg_7pjTZtijqp5J0vOzIGzD4CH5l7uFXXQ_yaqKH0MqpKe6lEslIB7UIVwe514_-KtU0yZbxeit4rp2Yg_J2vR5xB3MHIw",
        "eyJhbGciOiAiUlM1MTIiLCAia2lkIjogInIifQ.eyJpc3MiOiAiaHR0cHM6Ly9pZC5leGFtcGxlIiwgImF1ZCI6ICJpc29jYXN0IiwgInN1YiI6ICI3IiwgImV4cCI6IDE4MDAwMDAzMDAsICJub25jZSI6ICJuIn0.hZTyln2JfBxgB6f0ItYPEmMEClhLGN_uDcVEcsVvqFgOYTZtGJ5ppw6SvgCoubUTBnSPG40rDX3EpDLuEbA9VEuT_wmJV1gQtUviE3MBcpOddNT5tywiyEuEjk6ZpjSFOqs4ZGhL7wPfCIWV-5AH7cQTXSjilkQvfE2Ow847vUN9Qguksy5_SfjdRfKLKi0aqm_wvNzooqZY469bIwvdpg6TzLJ1ba96ovYs7JYSJCUHNRRAfbrzfDcynXqzr_eOcTY-KB7KBvX-hyfdLzPj1qyZ7CsJcb-ec0holFWK9cdIsBZCGOBjh8qcCXHE3NqCM2egfwEqcBP3H62ZIEK7Uw",
        "eyJhbGciOiAiUFMyNTYiLCAia2lkIjogInIifQ.eyJpc3MiOiAiaHR0cHM6Ly9pZC5leGFtcGxlIiwgImF1ZCI6ICJpc29jYXN0IiwgInN1YiI6ICI3IiwgImV4cCI6IDE4MDAwMDAzMDAsICJub25jZSI6ICJuIn0.cUQyyKB9NHYLa12IvKZXea1KWqSFEciRcouLQ5-BGPwr4IaiipByGSWMOpiQwopil4g-Z_DCz_jR5TS9ldoIduFaSrjtlJhC4lOykJHDv5RMBKoU0yOsrVNFPGTojcIBvB98OzJcm0kKOxdh_f1-G8DW-qeMU2R28Qbevclk9IIFYck-f_jpwXgKLfYRlDmrcOb0Ijbd9rYqrpzFNRrTGYzpgYpH2SKUK4QUkVscNUmN9eAy2IXxNf5WUi5C-UoCLuToljJVSo9bHzYaFnX7gXLemkTsHmQm0GIt9WT18LK-Lwa-TNLa9nFhvVG0zsqNPb3OJ74tsUntiBcQWh3dNw",
        "eyJhbGciOiAiUFMzODQiLCAia2lkIjogInIifQ.eyJpc3MiOiAiaHR0cHM6Ly9pZC5leGFtcGxlIiwgImF1ZCI6ICJpc29jYXN0IiwgInN1YiI6ICI3IiwgImV4cCI6IDE4MDAwMDAzMDAsICJub25jZSI6ICJuIn0.X0zvmpsTjyvyJKA374oQ04tsJCSsAvpOQch2VK6TuXYgjMHxIn_4c_n-Iob_5UynaRoVjnHXBESK-4p94KRBgcU-dJG_LWGBmefgVf2fdOtsDvgu2FHJHW4gO3OgWHfQTwep2kfHvY8hajOetiOSQLidViDSyuAMLjq-tfBFr4kVj4wlQoBGIx64J0L645AmLpv3ggpGyNF6b-FlNwvtRV59RzY6M-ru4FUbz18c7vW4glpPtWxvLivnBJ5q5joB--N67vaaLMkPeYfJzqvkYXFke_GlSKyiGLzihYvk5GcdTcESuoERFLa0fqlGCpbPOj5f103V1c95yZRcbtkP3Q",
        "eyJhbGciOiAiUFM1MTIiLCAia2lkIjogInIifQ.eyJpc3MiOiAiaHR0cHM6Ly9pZC5leGFtcGxlIiwgImF1ZCI6ICJpc29jYXN0IiwgInN1YiI6ICI3IiwgImV4cCI6IDE4MDAwMDAzMDAsICJub25jZSI6ICJuIn0.J5Z4Crsep0jcYUHWdmk3yW-Sqoh4jnir4APz8ZmGrDeYh_qdeYIhCgJ9M7-lPQrzplxgamrJBqpIq-mrgmtPBkwwt6KQxS6DDJ5LZfdq6-li6L8mDBC8eXM6nDlvYC64xhXAYU4BI9iYOwL5ESQCgBjK6t7WAF434PG3Rlg_Vx-ZFPDJE93Uwuc1dfybRXiLnPeFldxbu1XjS_Dur6NvRHeK-_bhApVWYHFAfbR_kf91TiGSp_gQ26oevLVlTX8THYlwhylcUmTkQHgCcBi0RO3ZNsY2RD-tsgcrQ4cXGKCo8zot-u-2_iUP48ThXAARyvx__BzEiaIrwqzY6yfqzQ",
        "eyJhbGciOiAiRWREU0EiLCAia2lkIjogImUifQ.eyJpc3MiOiAiaHR0cHM6Ly9pZC5leGFtcGxlIiwgImF1ZCI6ICJpc29jYXN0IiwgInN1YiI6ICI3IiwgImV4cCI6IDE4MDAwMDAzMDAsICJub25jZSI6ICJuIn0.kV1PX5D0GWEgv9MyQ3pz1S6hpCyDnFrbAaeIy4DKbZbZX5QW2VDuoNnGL72rc-Pp1V5DUen-0YW-CkNRDqKDAg",
        "eyJhbGciOiAiRVMzODQiLCAia2lkIjogImMifQ.eyJpc3MiOiAiaHR0cHM6Ly9pZC5leGFtcGxlIiwgImF1ZCI6ICJpc29jYXN0IiwgInN1YiI6ICI3IiwgImV4cCI6IDE4MDAwMDAzMDAsICJub25jZSI6ICJuIn0.K38KPjC5TqSVi-uMK08t2S4i2E9A6fEUzWJZbzkmlpVFRy2dsltzV4E-HV43sPfz-F5gSep_SmpUvyRBQlE0ms8WGF346tPXZTjp2yMe_zlfh5bm2f47doeIi5KljCrn",
    ];

    #[test]
    fn tokens_of_another_program_are_taken_in_every_algorithm() {
        let keys = KeySet::read(SAMPLE_KEYS.as_bytes()).expect("a list");
        for sample in SAMPLES {
            let proven = |text: &str| UnprovenToken::read(text).and_then(|token| token.proven(&keys, &expected()));
            proven(sample).expect("proven");
            let (signed, signature) = sample.rsplit_once('.').expect("three parts");
            let mut forged = unencoded(signature).expect("encoded");
            forged[20] ^= 1;
            let forged = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(forged));
            assert!(proven(&forged).is_err_and(|error| error.to_string().contains("is not of the provider's keys")));
        }
    }
}
