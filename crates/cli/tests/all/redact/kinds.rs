//! Kinds of secrets, as their makers document them: `{a36}` are 36 random letters and digits.
//!
//! Classes: a letters and digits, l letters, d digits, h hexadecimal, u capitals and digits, o
//! small letters and digits, w letters, digits, `_` and `-`, b base64, p a name and a password of
//! so many characters in base64.

use testkit::Rng;

pub(super) const KINDS: &[&str] = &[
    // Named in R2.
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n\n{b64}\n{b64}\n{b64}\n={b4}\n-----END PGP PRIVATE KEY BLOCK-----",
    "redis://:{a16}@cache.internal:6379/0",
    "amqps://app:{a14}@mq.internal/vhost",
    "postgresql://app:{a12}@db.internal:5432/shop",
    "mongodb+srv://app:{a18}@c0.mongodb.net/x",
    "xapp-1-A{u10}-{d13}-{h64}",
    "xoxa-{d12}-{d12}-{a24}",
    "xoxb-{d12}-{d12}-{a24}",
    "xoxp-{d12}-{d12}-{d12}-{h32}",
    "xoxr-{d12}-{d12}-{a24}",
    "xoxs-{d12}-{d12}-{a24}",
    "xoxe.xoxp-1-{a160}",
    "DefaultEndpointsProtocol=https;AccountName=x;AccountKey={b86}==;EndpointSuffix=core.windows.net",
    "https://x.blob.core.windows.net/c?sv=2022-11-02&se=2030-01-01&sig={a43}%3D&sp=r",
    "Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={b43}=",
    "M{w23}.{w6}.{w27}",
    "N{w25}.{w6}.{w38}",
    "https://{h32}@o123456.ingest.sentry.io/4507",
    "sk-{h32}",
    "glrt-{w20}",
    "glpat-{w20}",
    "gldt-{w20}",
    "glft-{w20}",
    "glsoat-{w20}",
    "glcbt-{h2}_{w20}",
    "glimt-{w25}",
    "glptt-{h40}",
    "glagent-{w50}",
    "gloas-{h64}",
    "GR1348941{w20}",
    "sk_test_{a24}",
    "sk_live_{a24}",
    "rk_live_{a24}",
    "curl -u admin:{a14} https://api.internal/v1",
    "curl -s --user 'admin:{a14}' https://api.internal/v1",
    "curl -sSu admin:{a14} https://api.internal/v1",
    "mysql -h db -u root -p{a12} shop",
    "mongosh --host db -u root -p {a14} shop",
    "redis-cli -h cache -a {a14} ping",
    "sqlcmd -S db -U sa -P {a14}",
    "sshpass -p {a14} ssh db",
    "docker login -u bob -p {a14} registry.internal",
    "smbclient //nas/x -U bob%{a14}",
    "htpasswd -bB users bob {a14}",
    "ldapsearch -D cn=admin -w {a14} -b dc=x",
    "mosquitto_pub -u bob -P {a14} -t x",
    "openssl rsa -in key.pem -passin pass:{a14}",
    "keytool -list -storepass {a14}",
    "zip -P {a14} -r x.zip x",
    "7z a -p{a14} x.7z x",
    "ConvertTo-SecureString '{a14}' -AsPlainText -Force",
    "db.internal:5432:shop:bob:{a14}",
    "machine api.internal login bob password {a14}",
    "{\"auths\":{\"https://index.docker.io/v1/\":{\"auth\":\"{p14}\"}}}",
    "Cookie: theme=dark; session={a32}",
    "Set-Cookie: sid={a32}; Path=/; HttpOnly",
    "hf_{l34}",
    "PASSWORD={a16}",
    "PASSWORD={a10}",
    // Known to detect-secrets by form.
    "AKC{a20}",
    "AP5{a12}",
    "AKIA{u16}",
    "ASIA{u16}",
    "ABIA{u16}",
    "ACCA{u16}",
    "aws_secret_access_key = \"{b40}\"",
    "https://bob:{a12}@intranet.local/x",
    "https://acct:{h64}@acct.cloudant.com",
    "cloudant_password = '{a24}'",
    "ghp_{a36}",
    "gho_{a36}",
    "ghu_{a36}",
    "ghs_{a36}",
    "ghr_{a76}",
    "ibm_cloud_iam_api_key={w44}",
    "cos_hmac_secret_access_key: {h48}",
    "eyJ{w34}.eyJ{w60}.{w43}",
    "api_key = \"{a20}\"",
    "db_passwd: '{a14}'",
    "service_key=\"{a24}\"",
    "client_secret: {a30}",
    "{o32}-us12",
    "//registry.npmjs.org/:_authToken={h8}-{h4}-{h4}-{h4}-{h12}",
    "sk-{a20}T3BlbkFJ{a20}",
    "-----BEGIN RSA PRIVATE KEY-----\n{b64}\n{b64}\n{b64}\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN EC PRIVATE KEY-----\n{b64}\n{b64}\n-----END EC PRIVATE KEY-----",
    "-----BEGIN OPENSSH PRIVATE KEY-----\n{b70}\n{b70}\n{b30}\n-----END OPENSSH PRIVATE KEY-----",
    "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n{b70}\n{b70}\n---- END SSH2 ENCRYPTED PRIVATE KEY ----",
    "PuTTY-User-Key-File-2: ssh-rsa\nEncryption: none\nPrivate-Lines: 2\n{b64}\n{b64}\nPrivate-MAC: {h40}",
    "pypi-AgEIcHlwaS5vcmc{w80}",
    "SG.{w22}.{w43}",
    "https://hooks.slack.com/services/T{u8}/B{u8}/{a24}",
    "softlayer_api_key=\"{o64}\"",
    "http://api.softlayer.com/soap/v3/{o64}",
    "sq0csp-{w43}",
    "{d9}:{w35}",
    "{d10}:AA{w33}",
    "AC{o32}",
    "SK{h32}",
    // Prefixes that makers document.
    "sk-ant-api03-{w93}AA",
    "sk-ant-oat01-{w80}",
    "sk-proj-{w74}",
    "sk-or-v1-{h64}",
    "gsk_{a52}",
    "pplx-{a48}",
    "xai-{a80}",
    "r8_{a37}",
    "dapi{h32}",
    "dop_v1_{h64}",
    "dp.pt.{a43}",
    "dt0c01.{u24}.{u64}",
    "EZAK{a54}",
    "fo1_{w43}",
    "glc_{b60}",
    "glsa_{a32}_{h8}",
    "hvs.{w90}",
    "{a14}.atlasv1.{w64}",
    "HRKU-{h8}-{h4}-{h4}-{h4}-{h12}",
    "lin_api_{a40}",
    "key-{h32}",
    "NRAK-{u27}",
    "ntn_{d11}{a35}",
    "npm_{a36}",
    "oy2{o43}",
    "pscale_tkn_{w43}",
    "PMAK-{h24}-{h34}",
    "pnu_{o36}",
    "pul-{h40}",
    "rdme_{o70}",
    "rubygems_{h48}",
    "xkeysib-{h64}-{a16}",
    "shippo_live_{h40}",
    "shpat_{h32}",
    "sbp_{h40}",
    "tskey-auth-{a12}-{a32}",
    "tfp_{w59}",
    "vcp_{a24}",
    "v1.0-{h24}-{h146}",
    "ATATT3{w186}",
    "figd_{w40}",
    "AGE-SECRET-KEY-1{u58}",
    "LTAI{a20}",
    "AKID{a32}",
    "A3-{u6}-{u11}-{u5}-{u5}-{u5}",
    "aio_{a28}",
    "sgp_{h40}",
    "AIza{w35}",
    "ya29.{w60}",
    "GOCSPX-{w28}",
    "github_pat_{a22}_{a59}",
    "dckr_pat_{w27}",
    "sntryu_{h64}",
    "whsec_{a32}",
    "{a3}8Q~{w34}",
    "Authorization: Bearer {w40}",
    "Authorization: Basic {p16}",
    "--password {a16}",
];

/// A secret of that kind, in its surroundings, and the part of it that nobody may see.
pub(super) fn make(kind: &str, rng: &mut Rng) -> (String, String) {
    let (mut text, mut core) = (String::new(), String::new());
    let mut rest = kind;
    while let Some(start) = rest.find('{') {
        text.push_str(&rest[..start]);
        let end = rest[start..].find('}').map(|end| start + end);
        let inside = end.map(|end| &rest[start + 1..end]);
        let count = inside.and_then(|inside| inside.get(1..)?.parse().ok());
        let (Some(end), Some(inside), Some(count)) = (end, inside, count) else {
            text.push('{');
            rest = &rest[start + 1..];
            continue;
        };
        let made = random(&inside[..1], count, rng);
        text.push_str(&made);
        if made.len() > core.len() {
            core = made;
        }
        rest = &rest[end + 1..];
    }
    text.push_str(rest);
    (text, core)
}

pub(super) fn random(class: &str, count: usize, rng: &mut Rng) -> String {
    use base64::Engine as _;
    const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
    let upper = LOWER.to_uppercase();
    let of = match class {
        "a" => format!("{LOWER}{upper}0123456789"),
        "l" => format!("{LOWER}{upper}"),
        "d" => "123456789".to_owned(),
        "h" => "0123456789abcdef".to_owned(),
        "u" => format!("{upper}234567"),
        "o" => format!("{LOWER}0123456789"),
        "w" => format!("{LOWER}{upper}0123456789_-"),
        "b" => format!("{LOWER}{upper}0123456789+/"),
        "p" => {
            let pair = format!("bob:{}", random("a", count, rng));
            return base64::engine::general_purpose::STANDARD.encode(pair);
        }
        _ => panic!("{class}"),
    };
    (0..count).map(|_| char::from(*rng.pick(of.as_bytes()))).collect()
}
