//! The parts of a certificate that libpq looks at and rustls does not show (RFC 5280, section 4.1).

use der::asn1::{AnyRef, BitStringRef, GeneralizedTime, ObjectIdentifier, UtcTime};
use der::{Decode, Reader, Result, SliceReader, Tag, TagMode, TagNumber, Tagged};

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
pub(super) const KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.15");
pub(super) const ALTERNATIVE_NAMES: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");
pub(super) const BASIC_CONSTRAINTS: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.19");
pub(super) const NAME_CONSTRAINTS: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.30");
pub(super) const EXTENDED_KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.37");
const SERVER_AUTHENTICATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");

/// Byte strings are DER, each with its tag.
pub(super) struct Certificate<'a> {
    pub der: &'a [u8],
    pub signed: &'a [u8],
    pub algorithm: Algorithm<'a>,
    pub signature: &'a [u8],
    pub is_version_3: bool,
    pub issuer: &'a [u8],
    pub subject: &'a [u8],
    pub public_key: &'a [u8],
    /// First and last second, since 1970.
    pub valid_s: (i64, i64),
    pub extensions: Vec<Extension<'a>>,
}

pub(super) struct Algorithm<'a> {
    pub id: AnyRef<'a>,
    pub parameters: Option<AnyRef<'a>>,
}

pub(super) struct Extension<'a> {
    // identifiers can be longer than `ObjectIdentifier` allows
    id: AnyRef<'a>,
    pub is_critical: bool,
    value: AnyRef<'a>,
}

impl<'a> Certificate<'a> {
    /// # Errors
    /// It is no certificate, or something follows it.
    pub fn from_der(der: &'a [u8]) -> Result<Self> {
        let mut reader = SliceReader::new(der)?;
        let (signed, algorithm, signature) = reader.sequence(|reader| -> Result<_> {
            Ok((reader.tlv_bytes()?, reader.sequence(Algorithm::decode)?, BitStringRef::decode(reader)?.raw_bytes()))
        })?;
        reader.finish()?;
        SliceReader::new(signed)?.sequence(|reader| {
            let version = reader.context_specific::<u8>(TagNumber(0), TagMode::Explicit)?;
            let (_serial, _algorithm) = (reader.tlv_bytes()?, reader.tlv_bytes()?);
            Ok(Certificate {
                der,
                signed,
                algorithm,
                signature,
                is_version_3: version == Some(2),
                issuer: reader.tlv_bytes()?,
                valid_s: reader.sequence(|reader| -> Result<_> { Ok((seconds(reader)?, seconds(reader)?)) })?,
                subject: reader.tlv_bytes()?,
                public_key: reader.tlv_bytes()?,
                extensions: extensions(reader)?,
            })
        })
    }

    pub fn is_root(&self) -> bool {
        self.subject == self.issuer
    }

    /// # Errors
    /// There are two of them.
    pub fn extension(&self, id: ObjectIdentifier) -> Result<Option<&Extension<'a>>> {
        let mut found = self.extensions.iter().filter(|extension| extension.has_id(id));
        match (found.next(), found.next()) {
            (extension, None) => Ok(extension),
            (_, Some(_)) => Err(Tag::ObjectIdentifier.value_error().into()),
        }
    }

    /// The first common name, if it is text.
    ///
    /// # Errors
    /// The subject cannot be read.
    pub fn common_name(&self) -> Result<Option<AnyRef<'a>>> {
        for names in AnyRef::from_der(self.subject)?.sequence(members)? {
            for name in members(&mut SliceReader::new(names.value())?)? {
                let (id, value) = name.sequence(|reader| -> Result<_> { Ok((reader.decode()?, reader.decode()?)) })?;
                if is_identifier(id, COMMON_NAME) {
                    return Ok(Some(value));
                }
            }
        }
        Ok(None)
    }
}

impl<'a> Algorithm<'a> {
    pub fn decode(reader: &mut SliceReader<'a>) -> Result<Self> {
        let id = reader.decode()?;
        let parameters = if reader.is_finished() { None } else { Some(reader.decode()?) };
        Ok(Algorithm { id, parameters })
    }
}

impl<'a> Extension<'a> {
    fn decode(reader: &mut SliceReader<'a>) -> Result<Self> {
        let (id, is_critical) = (reader.decode()?, Option::<bool>::decode(reader)?);
        let value: AnyRef<'a> = reader.decode()?;
        value.tag().assert_eq(Tag::OctetString)?;
        Ok(Extension { id, is_critical: is_critical == Some(true), value })
    }

    pub fn has_id(&self, id: ObjectIdentifier) -> bool {
        is_identifier(self.id, id)
    }

    /// Whether any of these bits of a key usage is set.
    pub fn has_usage(&self, bits: &[usize]) -> Result<bool> {
        let usage = BitStringRef::from_der(self.value.value())?;
        Ok(bits.iter().any(|bit| usage.get(*bit) == Some(true)))
    }

    /// Whether an extended key usage names the authentication of servers.
    pub fn is_for_servers(&self) -> Result<bool> {
        Ok(self.members()?.into_iter().any(|purpose| is_identifier(purpose, SERVER_AUTHENTICATION)))
    }

    /// Whether basic constraints call this an authority.
    pub fn is_authority(&self) -> Result<bool> {
        let first = self.members()?.into_iter().next();
        Ok(first.is_some_and(|member| member.decode_as::<bool>() == Ok(true)))
    }

    /// The members of an extension that is a sequence.
    pub fn members(&self) -> Result<Vec<AnyRef<'a>>> {
        AnyRef::from_der(self.value.value())?.sequence(members)
    }
}

fn is_identifier(tagged: AnyRef<'_>, id: ObjectIdentifier) -> bool {
    tagged.tag() == Tag::ObjectIdentifier && tagged.value() == id.as_bytes()
}

pub(super) fn field<'a>(fields: &[AnyRef<'a>], number: u32) -> Option<AnyRef<'a>> {
    let tag = Tag::ContextSpecific { constructed: true, number: TagNumber(number) };
    fields.iter().find(|field| field.tag() == tag).copied()
}

pub(super) fn members<'a>(reader: &mut SliceReader<'a>) -> Result<Vec<AnyRef<'a>>> {
    let mut members = Vec::new();
    while !reader.is_finished() {
        members.push(reader.decode()?);
    }
    Ok(members)
}

fn seconds(reader: &mut SliceReader<'_>) -> Result<i64> {
    let time: AnyRef<'_> = reader.decode()?;
    let since_1970 = match time.tag() {
        Tag::UtcTime => time.decode_as::<UtcTime>()?.to_unix_duration(),
        _ => time.decode_as::<GeneralizedTime>()?.to_unix_duration(),
    };
    Ok(i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX))
}

fn extensions<'a>(reader: &mut SliceReader<'a>) -> Result<Vec<Extension<'a>>> {
    let Some(list) = field(&members(reader)?, 3) else {
        return Ok(Vec::new());
    };
    let extensions = AnyRef::from_der(list.value())?.sequence(members)?;
    extensions.into_iter().map(|extension| extension.sequence(Extension::decode)).collect()
}
