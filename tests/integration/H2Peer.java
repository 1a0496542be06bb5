// H2Peer.java - java.net.http through keyhole: PORT, then the trust store is a system property
import java.net.InetSocketAddress;
import java.net.ProxySelector;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.concurrent.CompletableFuture;

public class H2Peer {
	public static void main(String[] args) throws Exception {
		HttpClient client = HttpClient.newBuilder()
			.proxy(ProxySelector.of(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0]))))
			.build();
		var first = client.send(request("/test/echo", 0), HttpResponse.BodyHandlers.ofString());
		System.out.println(first.version() + " " + first.statusCode());
		var all = new ArrayList<CompletableFuture<HttpResponse<String>>>();
		for (int i = 0; i < 20; i++)
			all.add(client.sendAsync(request("/test/echo", i * 10000), HttpResponse.BodyHandlers.ofString()));
		for (var one : all)
			System.out.println(one.get().version() + " " + one.get().statusCode());
	}

	static HttpRequest request(String path, int bytes) {
		var builder = HttpRequest.newBuilder(URI.create("https://open.test" + path));
		return bytes == 0 ? builder.build()
			: builder.POST(HttpRequest.BodyPublishers.ofByteArray(new byte[bytes])).build();
	}
}
