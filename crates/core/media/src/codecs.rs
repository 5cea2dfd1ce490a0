//! The formats within a container, by the codes that name them there.
//!
//! Promise: a code that is not known names none. Not here: the places at which containers have these codes (each container's module).

use crate::named_enum::named;

named! {
    /// A format of pictures, sound or text.
    Codec {
        /// AVC.
        H264 = "H.264",
        /// HEVC.
        H265 = "H.265",
        /// AV1.
        Av1 = "AV1",
        /// VP8.
        Vp8 = "VP8",
        /// VP9.
        Vp9 = "VP9",
        /// MPEG-1 and MPEG-2.
        Mpeg2 = "MPEG-2",
        /// MPEG-4 Part 2: Xvid, `DivX`.
        Mpeg4 = "MPEG-4 Part 2",
        /// VC-1 and its kin.
        Vc1 = "VC-1",
        /// Theora.
        Theora = "Theora",
        /// Motion JPEG.
        MotionJpeg = "Motion JPEG",
        /// `ProRes`.
        ProRes = "ProRes",
        /// AAC.
        Aac = "AAC",
        /// Dolby Digital.
        Ac3 = "AC-3",
        /// Dolby Digital Plus.
        Eac3 = "E-AC-3",
        /// DTS.
        Dts = "DTS",
        /// Dolby `TrueHD`.
        TrueHd = "TrueHD",
        /// Opus.
        Opus = "Opus",
        /// Vorbis.
        Vorbis = "Vorbis",
        /// Speex.
        Speex = "Speex",
        /// FLAC.
        Flac = "FLAC",
        /// MP3, MP2, MP1.
        MpegAudio = "MPEG audio",
        /// Samples as they are.
        Pcm = "PCM",
        /// A-law and µ-law.
        G711 = "G.711",
        /// Adaptive differences of samples.
        Adpcm = "ADPCM",
        /// `SubRip`.
        SubRip = "SubRip",
        /// SubStation Alpha.
        Ass = "ASS",
        /// `WebVTT`.
        WebVtt = "WebVTT",
        /// Text of MP4.
        TimedText = "Timed Text",
        /// Pictures of Blu-rays.
        Pgs = "PGS",
        /// Pictures of DVDs.
        VobSub = "VobSub",
    }
}

/// Beginnings of codes: of four letters in MP4 and AVI, the identifiers of Matroska, and the first bytes of streams of Ogg.
const CODES: &[(Codec, &[&str])] = &[
    (Codec::H264, &["avc1", "avc3", "H264", "h264", "X264", "V_MPEG4/ISO/AVC"]),
    (Codec::H265, &["hvc1", "hev1", "HEVC", "V_MPEGH/ISO/HEVC"]),
    (Codec::Av1, &["av01", "AV01", "V_AV1"]),
    (Codec::Vp8, &["vp08", "VP80", "V_VP8"]),
    (Codec::Vp9, &["vp09", "VP90", "V_VP9"]),
    (Codec::Mpeg2, &["MPG1", "MPG2", "mpg2", "V_MPEG1", "V_MPEG2"]),
    (Codec::Mpeg4, &["mp4v", "XVID", "xvid", "DIVX", "divx", "DX50", "FMP4", "V_MPEG4/ISO"]),
    (Codec::Vc1, &["WVC1", "WMV3", "vc-1"]),
    (Codec::Theora, &["\u{80}theora", "V_THEORA"]),
    (Codec::MotionJpeg, &["MJPG", "mjpg", "jpeg", "V_MJPEG"]),
    (Codec::ProRes, &["apc", "ap4", "V_PRORES"]),
    (Codec::Aac, &["mp4a", "A_AAC"]),
    (Codec::Eac3, &["ec-3", "A_EAC3"]),
    (Codec::Ac3, &["ac-3", "A_AC3"]),
    (Codec::Dts, &["dtsc", "dtsh", "dtsl", "dtse", "A_DTS"]),
    (Codec::TrueHd, &["mlpa", "A_TRUEHD"]),
    (Codec::Opus, &["Opus", "A_OPUS"]),
    (Codec::Vorbis, &["\u{1}vorbis", "A_VORBIS"]),
    (Codec::Speex, &["Speex"]),
    (Codec::Flac, &["fLaC", "\u{7f}FLAC", "A_FLAC"]),
    (Codec::MpegAudio, &[".mp3", "A_MPEG/"]),
    (Codec::Pcm, &["sowt", "twos", "lpcm", "ipcm", "fpcm", "A_PCM/"]),
    (Codec::G711, &["alaw", "ulaw"]),
    (Codec::SubRip, &["S_TEXT/UTF8"]),
    (Codec::Ass, &["S_TEXT/ASS", "S_TEXT/SSA"]),
    (Codec::WebVtt, &["wvtt", "S_TEXT/WEBVTT", "D_WEBVTT"]),
    (Codec::TimedText, &["tx3g", "stpp"]),
    (Codec::Pgs, &["S_HDMV/PGS"]),
    (Codec::VobSub, &["S_VOBSUB"]),
];

impl Codec {
    /// The codec whose code begins `bytes`. Of several the longest code counts.
    pub(crate) fn of_code(bytes: &[u8]) -> Option<Self> {
        let begins = |code: &str| {
            code.chars().zip(bytes).filter(|(letter, byte)| *letter == char::from(**byte)).count()
                == code.chars().count()
        };
        let found = CODES.iter().flat_map(|(codec, codes)| codes.iter().map(move |code| (*codec, *code)));
        found.filter(|(_, code)| begins(code)).max_by_key(|(_, code)| code.len()).map(|(codec, _)| codec)
    }

    /// Of a stream of MPEG-TS, by its type (ISO/IEC 13818-1 table 2-34, ATSC A/53).
    pub(crate) const fn of_packets(stream_type: u8) -> Option<Self> {
        Some(match stream_type {
            0x01 | 0x02 => Self::Mpeg2,
            0x03 | 0x04 => Self::MpegAudio,
            0x0f | 0x11 => Self::Aac,
            0x10 => Self::Mpeg4,
            0x1b => Self::H264,
            0x24 => Self::H265,
            0x81 => Self::Ac3,
            0x82 | 0x86 | 0x8a => Self::Dts,
            0x83 => Self::TrueHd,
            0x87 => Self::Eac3,
            0xea => Self::Vc1,
            _ => return None,
        })
    }

    /// Of sound in WAVE and AVI, by its tag (RFC 2361).
    pub(crate) const fn of_wave(tag: u16) -> Option<Self> {
        Some(match tag {
            1 | 3 | 0xfffe => Self::Pcm,
            2 | 0x11 => Self::Adpcm,
            6 | 7 => Self::G711,
            0x50 | 0x55 => Self::MpegAudio,
            0xff | 0x1600 | 0x1610 => Self::Aac,
            0x2000 => Self::Ac3,
            0x2001 => Self::Dts,
            0xf1ac => Self::Flac,
            _ => return None,
        })
    }
}

/// The formats of a content, each once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodecSet(u32);

impl CodecSet {
    /// No known one.
    pub const NONE: Self = Self(0);

    /// Those in it, pictures first, then sound, then texts.
    pub fn iter(self) -> impl Iterator<Item = Codec> {
        (0..).zip(Codec::ALL).filter(move |(place, _)| self.0 >> place & 1 != 0).map(|(_, codec)| *codec)
    }
}

impl Extend<Codec> for CodecSet {
    fn extend<T: IntoIterator<Item = Codec>>(&mut self, codecs: T) {
        for codec in codecs {
            let place = Codec::ALL.iter().take_while(|known| **known != codec).count();
            self.0 |= 1 << place;
        }
    }
}

impl FromIterator<Codec> for CodecSet {
    fn from_iter<T: IntoIterator<Item = Codec>>(codecs: T) -> Self {
        let mut set = Self::NONE;
        set.extend(codecs);
        set
    }
}

const _: () = assert!(Codec::ALL.len() <= 32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_one_format_are_distinguished_from_longer_ones_of_another() {
        let codes: [(&[u8], _); 6] = [
            (b"V_MPEG4/ISO/AVC", Some(Codec::H264)),
            (b"V_MPEG4/ISO/ASP", Some(Codec::Mpeg4)),
            (b"A_AAC/MPEG4/LC", Some(Codec::Aac)),
            (b"\x80theora\x03", Some(Codec::Theora)),
            (b"avc", None),
            (b"????", None),
        ];
        for (code, codec) in codes {
            assert_eq!(Codec::of_code(code), codec, "{}", code.escape_ascii());
        }
    }
}
